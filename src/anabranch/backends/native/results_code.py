"""The machine code of the pool: lists of blocks by size class, and what NumPy calls.

Words in capitals are numbers that `pool` puts in.
"""

CLASSES = 256

# A block: [next | raw block | class | bytes | unused up to 64] and then the data, aligned to 64, or
# to a page if it is large: processors compare the lower bits of addresses first, and take a load a
# little ahead of an earlier store, pages apart, for one that must wait.
# Classes 1 to 3 hold 64, 128 and 192 bytes; from 4 on there are four to each doubling, so that at
# most a fifth of a block is unused, and of a large block the system never sees that fifth.
IR = """
@heads = internal global [CLASSES x ptr] zeroinitializer
@resting = global i64 0
@living = global i64 0
@table = global [8 x ptr] zeroinitializer

declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @class_of(i64 %bytes) {
  %up = add i64 %bytes, 63
  %u0 = lshr i64 %up, 6
  %units = call i64 @llvm.umax.i64(i64 %u0, i64 1)
  %small = icmp ult i64 %units, 4
  br i1 %small, label %few, label %many
few:
  ret i64 %units
many:
  %zeros = call i64 @llvm.ctlz.i64(i64 %units, i1 true)
  %e = sub i64 61, %zeros
  %step = shl i64 1, %e
  %less = sub i64 %step, 1
  %raised = add i64 %units, %less
  %m = lshr i64 %raised, %e
  %e4 = shl i64 %e, 2
  %class = add i64 %e4, %m
  ret i64 %class
}
declare i64 @llvm.umax.i64(i64, i64)

define internal i64 @bytes_of(i64 %class) {
  %small = icmp ult i64 %class, 4
  br i1 %small, label %few, label %many
few:
  %b = shl i64 %class, 6
  ret i64 %b
many:
  %q = and i64 %class, 3
  %m = add i64 %q, 4
  %d = lshr i64 %class, 2
  %e = add i64 %d, 5
  %bytes = shl i64 %m, %e
  ret i64 %bytes
}

define ptr @take(i64 %class) {
  %head = getelementptr ptr, ptr @heads, i64 %class
  %first = load ptr, ptr %head
  %none = icmp eq ptr %first, null
  br i1 %none, label %empty, label %found
empty:
  %made = call ptr @fresh(i64 %class)
  ret ptr %made
found:
  %next = load ptr, ptr %first
  store ptr %next, ptr %head
  %bp = getelementptr i8, ptr %first, i64 24
  %bytes = load i64, ptr %bp
  call void @moved(i64 %bytes)
  %data = getelementptr i8, ptr %first, i64 64
  ret ptr %data
}

define internal void @moved(i64 %bytes) {
  %r0 = load i64, ptr @resting
  %r1 = sub i64 %r0, %bytes
  store i64 %r1, ptr @resting
  %l0 = load i64, ptr @living
  %l1 = add i64 %l0, %bytes
  store i64 %l1, ptr @living
  ret void
}

define internal ptr @fresh(i64 %class) {
  %bytes = call i64 @bytes_of(i64 %class)
  %living = load i64, ptr @living
  %use = add i64 %living, %bytes
  %large = icmp ugt i64 %bytes, 65536
  br i1 %large, label %tidy, label %get
tidy:
  %t0 = call i64 @trim(i64 %use)
  br label %get
get:
  %r1 = call ptr @raw(i64 %bytes)
  %bad = icmp eq ptr %r1, null
  br i1 %bad, label %short, label %good
short:
  %t1 = call i64 @trim(i64 0)
  %r2 = call ptr @raw(i64 %bytes)
  %worse = icmp eq ptr %r2, null
  br i1 %worse, label %never, label %good
never:
  ret ptr null
good:
  %block = phi ptr [%r1, %get], [%r2, %short]
  %align = call i64 @alignment(i64 %bytes)
  %low = sub i64 %align, 1
  %i0 = ptrtoint ptr %block to i64
  %i1 = add i64 %i0, 64
  %i2 = add i64 %i1, %low
  %mask = sub i64 0, %align
  %i3 = and i64 %i2, %mask
  %data = inttoptr i64 %i3 to ptr
  %rp = getelementptr i8, ptr %data, i64 -56
  store ptr %block, ptr %rp
  %cp = getelementptr i8, ptr %data, i64 -48
  store i64 %class, ptr %cp
  %bp = getelementptr i8, ptr %data, i64 -40
  store i64 %bytes, ptr %bp
  store i64 %use, ptr @living
  ret ptr %data
}

define internal i64 @alignment(i64 %bytes) {
  %large = icmp uge i64 %bytes, 32768
  %align = select i1 %large, i64 4096, i64 64
  ret i64 %align
}

define internal i64 @whole(i64 %bytes) {
  %align = call i64 @alignment(i64 %bytes)
  %more = add i64 %align, 64
  %whole = add i64 %bytes, %more
  ret i64 %whole
}

define internal ptr @raw(i64 %bytes) {
  %more = call i64 @whole(i64 %bytes)
  %f = load ptr, ptr @table
  %cp = getelementptr ptr, ptr @table, i64 2
  %context = load ptr, ptr %cp
  %block = call ptr %f(ptr %context, i64 %more)
  ret ptr %block
}

define internal void @drop(ptr %start) {
  %rp = getelementptr i8, ptr %start, i64 8
  %block = load ptr, ptr %rp
  %bp = getelementptr i8, ptr %start, i64 24
  %bytes = load i64, ptr %bp
  %more = call i64 @whole(i64 %bytes)
  %fp = getelementptr ptr, ptr @table, i64 1
  %f = load ptr, ptr %fp
  %cp = getelementptr ptr, ptr @table, i64 2
  %context = load ptr, ptr %cp
  call void %f(ptr %context, ptr %block, i64 %more)
  ret void
}

define void @release(ptr %context, ptr %data, i64 %size) {
  %start = getelementptr i8, ptr %data, i64 -64
  %bp = getelementptr i8, ptr %start, i64 24
  %bytes = load i64, ptr %bp
  %l0 = load i64, ptr @living
  %l1 = sub i64 %l0, %bytes
  store i64 %l1, ptr @living
  %r0 = load i64, ptr @resting
  %r1 = add i64 %r0, %bytes
  %lp = getelementptr ptr, ptr @table, i64 3
  %place = load ptr, ptr %lp
  %limit = load i64, ptr %place
  %full = icmp ugt i64 %r1, %limit
  br i1 %full, label %away, label %keep
away:
  call void @drop(ptr %start)
  ret void
keep:
  store i64 %r1, ptr @resting
  %cp = getelementptr i8, ptr %start, i64 16
  %class = load i64, ptr %cp
  %head = getelementptr ptr, ptr @heads, i64 %class
  %first = load ptr, ptr %head
  store ptr %first, ptr %start
  store ptr %start, ptr %head
  ret void
}

define i64 @trim(i64 %keep) {
entry:
  br label %next
next:
  %c = phi i64 [LAST, %entry], [%c, %one], [%c1, %done]
  %given = phi i64 [0, %entry], [%sum, %one], [%given, %done]
  %r0 = load i64, ptr @resting
  %over = icmp ugt i64 %r0, %keep
  %any = icmp sge i64 %c, 0
  %go = and i1 %over, %any
  br i1 %go, label %look, label %end
look:
  %head = getelementptr ptr, ptr @heads, i64 %c
  %first = load ptr, ptr %head
  %none = icmp eq ptr %first, null
  br i1 %none, label %done, label %one
one:
  %after = load ptr, ptr %first
  store ptr %after, ptr %head
  %bp = getelementptr i8, ptr %first, i64 24
  %bytes = load i64, ptr %bp
  %r1 = sub i64 %r0, %bytes
  store i64 %r1, ptr @resting
  call void @drop(ptr %first)
  %sum = add i64 %given, %bytes
  br label %next
done:
  %c1 = sub i64 %c, 1
  br label %next
end:
  ret i64 %given
}

define ptr @emptied(ptr %place) {
  %held = atomicrmw xchg ptr %place, ptr null seq_cst
  ret ptr %held
}

define ptr @allocate(ptr %context, i64 %size) {
  %class = call i64 @class_of(i64 %size)
  %data = call ptr @take(i64 %class)
  ret ptr %data
}

define ptr @zeroed(ptr %context, i64 %count, i64 %each) {
  %size = mul i64 %count, %each
  %data = call ptr @allocate(ptr null, i64 %size)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %end, label %fill
fill:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  br label %end
end:
  ret ptr %data
}

define ptr @resized(ptr %context, ptr %old, i64 %size) {
  %data = call ptr @allocate(ptr null, i64 %size)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %end, label %copy
copy:
  %bp = getelementptr i8, ptr %old, i64 -40
  %before = load i64, ptr %bp
  %some = call i64 @llvm.umin.i64(i64 %before, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %old, i64 %some, i1 false)
  call void @release(ptr null, ptr %old, i64 0)
  br label %end
end:
  ret ptr %data
}
declare i64 @llvm.umin.i64(i64, i64)

define ptr @array(ptr %descr, i32 %ndim, ptr %shape, i64 %class) {
  %tp = getelementptr ptr, ptr @table, i64 4
  %new = load ptr, ptr %tp
  %kp = getelementptr ptr, ptr @table, i64 5
  %kind = load ptr, ptr %kp
  %ip = getelementptr ptr, ptr @table, i64 6
  %incref = load ptr, ptr %ip
  call void %incref(ptr %descr)
  %data = call ptr @take(i64 %class)
  %bad = icmp eq ptr %data, null
  br i1 %bad, label %plain, label %ours
plain:
  %numpys = call ptr %new(ptr %kind, ptr %descr, i32 %ndim, ptr %shape, ptr null, ptr null,
    i32 0, ptr null)
  ret ptr %numpys
ours:
  %made = call ptr %new(ptr %kind, ptr %descr, i32 %ndim, ptr %shape, ptr null, ptr %data,
    i32 CARRAY, ptr null)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %own
failed:
  call void @release(ptr null, ptr %data, i64 0)
  ret ptr null
own:
  %fp = getelementptr i8, ptr %made, i64 FLAGS
  %f0 = load i32, ptr %fp
  %f1 = or i32 %f0, OWNS
  store i32 %f1, ptr %fp
  %hp = getelementptr ptr, ptr @table, i64 7
  %handler = load ptr, ptr %hp
  call void %incref(ptr %handler)
  %mp = getelementptr i8, ptr %made, i64 HANDLER
  store ptr %handler, ptr %mp
  ret ptr %made
}
"""
