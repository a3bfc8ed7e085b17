; How threads wait for chunks, claim them and tell that they are done; `pool.py` fills in {words}.

; What a thread must know to claim a chunk, in one line of the cache: the word
;   the step's number << 48 | its chunks << 32 | those taken from the back << 16 | from the front,
; then the task and its frame, which stay as they are until all chunks are done.
%step = type {i64, ptr, ptr}
@step = internal global %step zeroinitializer, align 64
@finished = internal global i32 0, align 64    ; chunks of the step that others have done
@asleep = internal global i32 0, align 64
@waits = internal global i32 0                 ; whether the caller sleeps until the step is done
@limit = internal global i32 1, align 64       ; threads, the caller among them
@is_short = internal global i32 0              ; whether the last step that was shared was offered
@owned = internal global i32 0, align 64       ; whether a step is going on
@started = internal global i32 0
@avoided = internal global i32 -1              ; the processor that is left to the caller
@alone_until = internal global i64 0           ; until when steps are begun alone; 0: not lately
@retreat = internal global i64 0               ; for how long that was, in ns
@offered_until = internal global i64 0         ; when a step ended that was offered to nobody
@in_a_row = internal global i32 0              ; such steps, each soon after the one before
@mutex = internal global [128 x i8] zeroinitializer, align 64
@rung = internal global [128 x i8] zeroinitializer, align 64
@ended = internal global [128 x i8] zeroinitializer, align 64
@handles = internal global [1024 x i64] zeroinitializer, align 64
@every_signal = internal constant [128 x i8] c"{every}"

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.prefetch(ptr, i32, i32, i32)
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
entry:
  %t = call i64 @read(i32 {clock})
  ret i64 %t
}

define internal i64 @read(i32 %clock) {
entry:
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 %clock, ptr %time)
  %s = load i64, ptr %time
  %at = getelementptr i64, ptr %time, i64 1
  %n = load i64, ptr %at
  %ns = mul i64 %s, 1000000000
  %t = add i64 %ns, %n
  ret i64 %t
}

; Claim some chunks: how many << 32 | the first, or 0 where none is left. The caller takes them from
; the front, the others from the back, so that each finds near what it made in the step before.
define internal i64 @grab(i1 %back) {
entry:
  %first = load atomic i64, ptr @step acquire, align 64
  br label %look
look:
  %seen = phi i64 [%first, %entry], [%other, %again]
  %fronts = and i64 %seen, 65535
  %behind = lshr i64 %seen, 16
  %backs = and i64 %behind, 65535
  %above = lshr i64 %seen, 32
  %count = and i64 %above, 65535
  %gone = add i64 %fronts, %backs
  %none = icmp uge i64 %gone, %count
  br i1 %none, label %nothing, label %try
try:
  %left = sub i64 %count, %gone
  %some = call i64 @portion(i64 %left)
  %high = shl i64 %some, 16
  %more = select i1 %back, i64 %high, i64 %some
  %taken = add i64 %seen, %more
  %frame = load ptr, ptr getelementptr (%step, ptr @step, i32 0, i32 2)
  call void @llvm.prefetch(ptr %frame, i32 0, i32 3, i32 1)    ; on its way while the claim is made
  %pair = cmpxchg ptr @step, i64 %seen, i64 %taken acq_rel acquire
  %mine = extractvalue {i64, i1} %pair, 1
  br i1 %mine, label %found, label %again
again:
  %other = extractvalue {i64, i1} %pair, 0
  br label %look
found:
  %end = sub i64 %count, %backs
  %last_ones = sub i64 %end, %some
  %next = select i1 %back, i64 %last_ones, i64 %fronts
  %size = shl i64 %some, 32
  %claim = or i64 %size, %next
  ret i64 %claim
nothing:
  ret i64 0
}

; How many chunks are claimed at once, where so many are left: few towards the end, so that all come
; to it together, and many before, since each claim is waited for.
define internal i64 @portion(i64 %left) {
entry:
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %threads = zext i32 %limit to i64
  %parts = shl i64 %threads, 1
  %share = udiv i64 %left, %parts
  %some = call i64 @llvm.umax.i64(i64 %share, i64 1)
  ret i64 %some
}

; Do the chunks of a claim; how many they are.
define internal i64 @do(ptr %task, ptr %frame, i64 %claim) {
entry:
  %size = lshr i64 %claim, 32
  %first = and i64 %claim, 4294967295
  %end = add i64 %first, %size
  br label %work
work:
  %chunk = phi i64 [%first, %entry], [%following, %work]
  call void %task(ptr %frame, i64 %chunk)
  %following = add i64 %chunk, 1
  %goes_on = icmp ult i64 %following, %end
  br i1 %goes_on, label %work, label %done
done:
  ret i64 %size
}

; The word of the step behind this one, which has no chunks yet.
define internal i64 @following(i64 %word) {
entry:
  %number = and i64 %word, -281474976710656
  %next = add i64 %number, 281474976710656
  ret i64 %next
}

; Leave nothing to claim, and let those that sleep see that something has changed.
define internal void @close() {
entry:
  %old = load atomic i64, ptr @step monotonic, align 64
  %closed = call i64 @following(i64 %old)
  store atomic i64 %closed, ptr @step seq_cst, align 64
  ret void
}

define internal ptr @worker(ptr %given) {
entry:
  %until = alloca i64    ; when it falls asleep if nothing more comes
  store i64 0, ptr %until
  %number = ptrtoint ptr %given to i64
  br label %begin
begin:
  %seen = load atomic i64, ptr @step seq_cst, align 64
  %limit = load atomic i32, ptr @limit seq_cst, align 4
  %most = sext i32 %limit to i64
  %more = add i64 %number, 1
  %stays = icmp slt i64 %more, %most
  br i1 %stays, label %watch, label %leave
leave:
  ret ptr null
watch:
  %at_once = call i64 @grab(i1 true)
  %soon = icmp ne i64 %at_once, 0
  br i1 %soon, label %work, label %wait
wait:    ; after a short step for a short time, but for no less than after the step before it
  %idle_from = call i64 @now()
  %kind = load atomic i32, ptr @is_short monotonic, align 4
  %is_short = icmp ne i32 %kind, 0
  %for = select i1 %is_short, i64 {glance}, i64 {lookout}
  %then = add i64 %idle_from, %for
  %so_far = load i64, ptr %until
  %latest = call i64 @llvm.smax.i64(i64 %then, i64 %so_far)
  store i64 %latest, ptr %until
  br label %look
look:
  %turn = phi i32 [0, %wait], [%turns, %idle], [0, %early]
  %later = call i64 @grab(i1 true)
  %found = icmp ne i64 %later, 0
  br i1 %found, label %work, label %idle
work:
  %claim = phi i64 [%at_once, %watch], [%later, %look]
  %task = load ptr, ptr getelementptr (%step, ptr @step, i32 0, i32 1)
  %frame = load ptr, ptr getelementptr (%step, ptr @step, i32 0, i32 2)
  %size = call i64 @do(ptr %task, ptr %frame, i64 %claim)
  %few = trunc i64 %size to i32
  %done = atomicrmw add ptr @finished, i32 %few seq_cst
  %waiting = load atomic i32, ptr @waits seq_cst, align 4
  %sleeps = icmp ne i32 %waiting, 0
  br i1 %sleeps, label %tell, label %begin
tell:
  %m = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_signal(ptr @ended)
  %v = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %begin
idle:
  call void {pause}
  %turns = add i32 %turn, 1
  %many = icmp eq i32 %turns, 64
  br i1 %many, label %check, label %look
check:
  %time = call i64 @now()
  %end = load i64, ptr %until
  %long = icmp sgt i64 %time, %end
  br i1 %long, label %tired, label %early
early:
  br label %look
tired:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %a = atomicrmw add ptr @asleep, i32 1 seq_cst
  br label %sleep
sleep:
  %now = load atomic i64, ptr @step seq_cst, align 64
  %changed = xor i64 %now, %seen
  %quiet = icmp ult i64 %changed, 281474976710656    ; the step's number is the same
  br i1 %quiet, label %rest, label %up
rest:
  %w = call i32 @pthread_cond_wait(ptr @rung, ptr @mutex)
  br label %sleep
up:
  %z = atomicrmw sub ptr @asleep, i32 1 seq_cst
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %begin
}

; Start the threads that are missing, all signals blocked: those are for Python's threads.
define internal void @start() {
entry:
  %kept = alloca [128 x i8], align 16
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %there = load i32, ptr @started
  %threads = add i32 %there, 1
  %lacks = icmp slt i32 %threads, %limit
  br i1 %lacks, label %block, label %out
block:
  %m = call i32 @pthread_sigmask(i32 {set_mask}, ptr @every_signal, ptr %kept)
  %wanted = sub i32 %limit, 1
  br label %head
head:
  %n = load i32, ptr @started
  %goes_on = icmp slt i32 %n, %wanted
  br i1 %goes_on, label %body, label %done
body:
  %at = getelementptr i64, ptr @handles, i32 %n
  %wide = zext i32 %n to i64
  %number = inttoptr i64 %wide to ptr
  %r = call i32 @pthread_create(ptr %at, ptr null, ptr @worker, ptr %number)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fewer, label %good
good:
  %following = add i32 %n, 1
  store i32 %following, ptr @started
  br label %head
fewer:
  %all = add i32 %n, 1
  store atomic i32 %all, ptr @limit seq_cst, align 4
  br label %done
done:
  store i32 -1, ptr @avoided
  %o = call i32 @pthread_sigmask(i32 {set_mask}, ptr %kept, ptr null)
  br label %out
out:
  ret void
}

; Wake so many of those that sleep.
define internal void @ring(i32 %wanted) {
entry:
  %sleeping = load atomic i32, ptr @asleep seq_cst, align 64
  %fewer = icmp slt i32 %wanted, %sleeping
  %count = select i1 %fewer, i32 %wanted, i32 %sleeping
  %any = icmp sgt i32 %count, 0
  br i1 %any, label %wake, label %done
wake:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %one
one:
  %i = phi i32 [0, %wake], [%following, %one]
  %s = call i32 @pthread_cond_signal(ptr @rung)
  %following = add i32 %i, 1
  %goes_on = icmp slt i32 %following, %count
  br i1 %goes_on, label %one, label %woken
woken:
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %done
done:
  ret void
}

; A thread has lost its processor: begin alone for a while, which doubles if it happens again soon.
define internal void @draw_back() {
entry:
  %now = call i64 @now()
  %last = load i64, ptr @alone_until
  %before = load i64, ptr @retreat
  %gap = sub i64 %now, %last
  %near = shl i64 %before, 3
  %soon = icmp slt i64 %gap, %near
  %twice = shl i64 %before, 1
  %fits = icmp slt i64 %twice, {most}
  %more = select i1 %fits, i64 %twice, i64 {most}
  %for = select i1 %soon, i64 %more, i64 {least}
  %until = add i64 %now, %for
  store i64 %for, ptr @retreat
  store i64 %until, ptr @alone_until
  ret void
}

; Until others have done so many chunks.
define internal void @wait(i32 %count) {
entry:
  %at_once = load atomic i32, ptr @finished seq_cst, align 64
  %complete = icmp sge i32 %at_once, %count
  br i1 %complete, label %out, label %start
start:
  %since = call i64 @now()
  br label %look
look:
  %turn = phi i32 [0, %start], [%turns, %idle], [0, %early]
  %done = load atomic i32, ptr @finished seq_cst, align 64
  %all = icmp sge i32 %done, %count
  br i1 %all, label %out, label %idle
idle:
  call void {pause}
  %turns = add i32 %turn, 1
  %many = icmp eq i32 %turns, 64
  br i1 %many, label %check, label %look
check:
  %time = call i64 @now()
  %spent = sub i64 %time, %since
  %long = icmp sgt i64 %spent, {lookout}
  br i1 %long, label %tired, label %early
early:
  br label %look
tired:
  call void @call_over(i32 %count)
  store atomic i32 1, ptr @waits seq_cst, align 4
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %sleep
sleep:
  %now = load atomic i32, ptr @finished seq_cst, align 64
  %enough = icmp sge i32 %now, %count
  br i1 %enough, label %up, label %rest
rest:
  %w = call i32 @pthread_cond_wait(ptr @ended, ptr @mutex)
  br label %sleep
up:
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  store atomic i32 0, ptr @waits seq_cst, align 4
  br label %out
out:
  ret void
}

define void @run(ptr %task, ptr %frame, i64 %chunks) {
entry:
  %mine = call i1 @take_pool(i64 %chunks)
  br i1 %mine, label %together, label %alone
together:
  call void @start()
  %until = load i64, ptr @alone_until
  %never = icmp eq i64 %until, 0
  br i1 %never, label %open_up, label %careful
careful:
  %since = call i64 @now()
  %over = icmp sge i64 %since, %until
  br i1 %over, label %open_up, label %first
first:    ; what is short is done before others would have come
  %f = phi i64 [0, %careful], [%f1, %patient]
  call void %task(ptr %frame, i64 %f)
  %f1 = add i64 %f, 1
  %complete = icmp sge i64 %f1, %chunks
  br i1 %complete, label %released, label %patient
patient:
  %time = call i64 @now()
  %spent = sub i64 %time, %since
  %short_yet = icmp slt i64 %spent, {patience}
  br i1 %short_yet, label %first, label %open_up
open_up:
  %begun = phi i64 [0, %together], [0, %careful], [%f1, %patient]
  call void @share(ptr %task, ptr %frame, i64 %chunks, i64 %begun, i1 false, i1 true)
  br label %released
released:
  store atomic i32 0, ptr @owned release, align 64
  ret void
alone:
  call void @do_all(ptr %task, ptr %frame, i64 %chunks)
  ret void
}

; A step so short that it is done before a thread wakes: shared with those that look out. Where all
; sleep and {often} such steps follow closely on one another, they are woken for those to come.
define void @offer(ptr %task, ptr %frame, i64 %chunks) {
entry:
  %mine = call i1 @take_pool(i64 %chunks)
  br i1 %mine, label %ask, label %alone
ask:
  %until = load i64, ptr @alone_until
  %never = icmp eq i64 %until, 0
  br i1 %never, label %look, label %careful
careful:
  %time = call i64 @now()
  %over = icmp sge i64 %time, %until
  br i1 %over, label %look, label %leave
look:
  %there = load i32, ptr @started
  %asleep = load atomic i32, ptr @asleep monotonic, align 64
  %awake = icmp slt i32 %asleep, %there
  br i1 %awake, label %open_up, label %count
count:
  %now = call i64 @now()
  %before = load i64, ptr @offered_until
  %gap = sub i64 %now, %before
  %soon = icmp slt i64 %gap, {soon}
  %so_far = load i32, ptr @in_a_row
  %more = add i32 %so_far, 1
  %row = select i1 %soon, i32 %more, i32 0
  store i32 %row, ptr @in_a_row
  %many = icmp sge i32 %row, {often}
  br i1 %many, label %wake, label %unshared
unshared:
  call void @do_all(ptr %task, ptr %frame, i64 %chunks)
  %end = call i64 @now()
  store i64 %end, ptr @offered_until
  br label %released
wake:
  store i32 0, ptr @in_a_row
  store atomic i32 1, ptr @is_short monotonic, align 4    ; before threads begin that are to know it
  call void @start()
  br label %open_up
open_up:
  %rings = phi i1 [false, %look], [true, %wake]
  call void @share(ptr %task, ptr %frame, i64 %chunks, i64 0, i1 true, i1 %rings)
  br label %released
released:
  store atomic i32 0, ptr @owned release, align 64
  ret void
leave:
  store atomic i32 0, ptr @owned release, align 64
  br label %alone
alone:
  call void @do_all(ptr %task, ptr %frame, i64 %chunks)
  ret void
}

; Whether there is something to share, and this step has the threads to share it with.
define internal i1 @take_pool(i64 %chunks) {
entry:
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %single = icmp sle i32 %limit, 1
  %short = icmp sle i64 %chunks, 1
  %long = icmp sgt i64 %chunks, 65535
  %apart = or i1 %short, %long
  %simple = or i1 %single, %apart
  br i1 %simple, label %no, label %ask
ask:
  %pair = cmpxchg ptr @owned, i32 0, i32 1 acq_rel monotonic
  %mine = extractvalue {i32, i1} %pair, 1
  ret i1 %mine
no:
  ret i1 false
}

; The chunks from `begun` on, together with the others; the first of them is the caller's.
define internal void @share(
    ptr %task, ptr %frame, i64 %chunks, i64 %begun, i1 %short, i1 %rings) {
entry:
  call void @avoid_caller()
  %kind = zext i1 %short to i32
  %before = load atomic i32, ptr @is_short monotonic, align 4
  %same = icmp eq i32 %kind, %before
  br i1 %same, label %open, label %note
note:    ; seldom: threads that look out read what lies there
  store atomic i32 %kind, ptr @is_short monotonic, align 4
  br label %open
open:
  store atomic i32 0, ptr @finished monotonic, align 64
  store ptr %task, ptr getelementptr (%step, ptr @step, i32 0, i32 1)
  store ptr %frame, ptr getelementptr (%step, ptr @step, i32 0, i32 2)
  %old = load atomic i64, ptr @step monotonic, align 64
  %closed = call i64 @following(i64 %old)
  %count = shl i64 %chunks, 32
  %all = or i64 %closed, %count
  %unbegun = sub i64 %chunks, %begun
  %some = call i64 @portion(i64 %unbegun)
  %taken = add i64 %begun, %some
  %word = or i64 %all, %taken
  store atomic i64 %word, ptr @step seq_cst, align 64
  %size = shl i64 %some, 32
  %own = or i64 %size, %begun
  br i1 %rings, label %wake, label %work
wake:
  %left = sub i64 %chunks, %taken
  %wanted = trunc i64 %left to i32
  call void @ring(i32 %wanted)
  br label %work
work:
  %claim = phi i64 [%own, %open], [%own, %wake], [%next, %work]
  %so_far = phi i64 [%begun, %open], [%begun, %wake], [%done, %work]
  %did = call i64 @do(ptr %task, ptr %frame, i64 %claim)
  %done = add i64 %so_far, %did
  %next = call i64 @grab(i1 false)
  %goes_on = icmp ne i64 %next, 0
  br i1 %goes_on, label %work, label %rest
rest:
  %others = sub i64 %chunks, %done
  %awaited = trunc i64 %others to i32
  call void @wait(i32 %awaited)
  ret void
}

define internal void @do_all(ptr %task, ptr %frame, i64 %chunks) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%following, %body]
  %goes_on = icmp slt i64 %i, %chunks
  br i1 %goes_on, label %body, label %done
body:
  call void %task(ptr %frame, i64 %i)
  %following = add i64 %i, 1
  br label %head
done:
  ret void
}

; The new number of threads, unless a step is going on for so many tries (0: however long).
define void @resize(i32 %limit, i64 %tries) {
entry:
  br label %ask
ask:
  %try = phi i64 [1, %entry], [%next, %busy]
  %pair = cmpxchg ptr @owned, i32 0, i32 1 acq_rel monotonic
  %mine = extractvalue {i32, i1} %pair, 1
  br i1 %mine, label %change, label %busy
busy:
  %y = call i32 @sched_yield()
  %next = add i64 %try, 1
  %enough = icmp eq i64 %try, %tries
  br i1 %enough, label %out, label %ask
change:
  store atomic i32 %limit, ptr @limit seq_cst, align 4
  call void @close()
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %r = call i32 @pthread_cond_broadcast(ptr @rung)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %head
head:
  %n = load i32, ptr @started
  %over = icmp sge i32 %n, %limit
  br i1 %over, label %body, label %done
body:
  %last = sub i32 %n, 1
  %at = getelementptr i64, ptr @handles, i32 %last
  %handle = load i64, ptr %at
  %j = call i32 @pthread_join(i64 %handle, ptr null)
  store i32 %last, ptr @started
  br label %head
done:
  store atomic i32 0, ptr @owned release, align 64
  br label %out
out:
  ret void
}

; As at the start: for a fresh process, which has no thread but its caller.
define void @reset() {
entry:
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %r = call i32 @pthread_cond_init(ptr @rung, ptr null)
  %e = call i32 @pthread_cond_init(ptr @ended, ptr null)
  store i32 0, ptr @started
  store i32 -1, ptr @avoided
  store i64 0, ptr @alone_until
  store i32 0, ptr @in_a_row
  call void @close()    ; the chunks of a step that was going on are the parent's
  store atomic i32 0, ptr @asleep seq_cst, align 64
  store atomic i32 0, ptr @waits seq_cst, align 4
  store atomic i32 0, ptr @owned seq_cst, align 64
  ret void
}
