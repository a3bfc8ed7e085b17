; How threads wait for chunks, claim them and tell that they are done; `pool.py` fills in {words}.

; The step's number << 32 | chunks taken from the back << 16 | chunks taken from the front.
@claim = internal global i64 0, align 64
@finished = internal global i32 0, align 64    ; chunks of the step that are done
@bell = internal global i32 0, align 64        ; rings once for each step
@asleep = internal global i32 0
@waits = internal global i32 0                 ; whether the caller sleeps until the step is done
@owned = internal global i32 0, align 64       ; whether a step is going on
@started = internal global i32 0
@limit = internal global i32 1                 ; threads, the caller among them
@avoided = internal global i32 -1              ; the processor that is left to the caller
@alone_until = internal global i64 0           ; until when steps are begun alone; 0: not lately
@retreat = internal global i64 0               ; for how long that was, in ns
@task = internal global ptr null, align 64
@frame = internal global ptr null
@chunks = internal global i32 0
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

; Claim one chunk and do it; false where none is left. The caller takes them from the front, the
; others from the back, so that each finds near what it made in the step before.
define internal i1 @grab(i1 %back) {
entry:
  %first = load atomic i64, ptr @claim acquire, align 64
  %one = select i1 %back, i64 65536, i64 1
  br label %look
look:
  %seen = phi i64 [%first, %entry], [%other, %again]
  %both = trunc i64 %seen to i32
  %fronts = and i32 %both, 65535
  %backs = lshr i32 %both, 16
  %gone = add i32 %fronts, %backs
  %count = load atomic i32, ptr @chunks monotonic, align 4
  %none = icmp uge i32 %gone, %count
  br i1 %none, label %nothing, label %try
try:
  %taken = add i64 %seen, %one
  %pair = cmpxchg ptr @claim, i64 %seen, i64 %taken acq_rel acquire
  %mine = extractvalue {i64, i1} %pair, 1
  br i1 %mine, label %found, label %again
again:
  %other = extractvalue {i64, i1} %pair, 0
  br label %look
found:
  %end = sub i32 %count, 1
  %last_one = sub i32 %end, %backs
  %next = select i1 %back, i32 %last_one, i32 %fronts
  br label %work
work:
  %task = load ptr, ptr @task
  %frame = load ptr, ptr @frame
  %chunk = zext i32 %next to i64
  call void %task(ptr %frame, i64 %chunk)
  %before = atomicrmw add ptr @finished, i32 1 seq_cst
  %now = add i32 %before, 1
  %last = icmp eq i32 %now, %count
  br i1 %last, label %tell, label %did
tell:
  %waiting = load atomic i32, ptr @waits seq_cst, align 4
  %sleeps = icmp ne i32 %waiting, 0
  br i1 %sleeps, label %wake, label %did
wake:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_signal(ptr @ended)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %did
did:
  ret i1 true
nothing:
  ret i1 false
}

define internal ptr @worker(ptr %given) {
entry:
  %number = ptrtoint ptr %given to i64
  br label %begin
begin:
  %seen = load atomic i32, ptr @bell seq_cst, align 64
  %limit = load atomic i32, ptr @limit seq_cst, align 4
  %most = sext i32 %limit to i64
  %more = add i64 %number, 1
  %stays = icmp slt i64 %more, %most
  br i1 %stays, label %watch, label %leave
leave:
  ret ptr null
watch:
  %since = call i64 @now()
  br label %look
look:
  %turn = phi i32 [0, %watch], [%turns, %idle], [0, %early]
  %did = call i1 @grab(i1 true)
  br i1 %did, label %begin, label %idle
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
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %a = atomicrmw add ptr @asleep, i32 1 seq_cst
  br label %sleep
sleep:
  %heard = load atomic i32, ptr @bell seq_cst, align 64
  %quiet = icmp eq i32 %heard, %seen
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
define internal void @start(i32 %limit) {
entry:
  %kept = alloca [128 x i8], align 16
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
  ret void
}

define internal void @ring(i32 %wanted) {
entry:
  %b = atomicrmw add ptr @bell, i32 1 seq_cst
  %sleeping = load atomic i32, ptr @asleep seq_cst, align 4
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

define internal void @wait(i32 %count) {
entry:
  %since = call i64 @now()
  br label %look
look:
  %turn = phi i32 [0, %entry], [%turns, %idle], [0, %early]
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
  %limit = load atomic i32, ptr @limit monotonic, align 4
  %single = icmp sle i32 %limit, 1
  %short = icmp sle i64 %chunks, 1
  %long = icmp sgt i64 %chunks, 65535
  %apart = or i1 %short, %long
  %simple = or i1 %single, %apart
  br i1 %simple, label %alone, label %ask
ask:
  %pair = cmpxchg ptr @owned, i32 0, i32 1 acq_rel monotonic
  %mine = extractvalue {i32, i1} %pair, 1
  br i1 %mine, label %together, label %alone
together:
  %there = load i32, ptr @started
  %threads = add i32 %there, 1
  %lacks = icmp slt i32 %threads, %limit
  br i1 %lacks, label %begin, label %ready
begin:
  call void @start(i32 %limit)
  br label %ready
ready:
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
  %begun = phi i64 [0, %ready], [0, %careful], [%f1, %patient]
  %begun_ = trunc i64 %begun to i32
  call void @avoid_caller()
  store ptr %task, ptr @task
  store ptr %frame, ptr @frame
  store atomic i32 %begun_, ptr @finished monotonic, align 64
  %old = load atomic i64, ptr @claim monotonic, align 64
  %step = and i64 %old, -4294967296
  %following_step = add i64 %step, 4294967296
  %open = or i64 %following_step, %begun
  %closed = or i64 %following_step, 4294967295    ; nobody claims while the number of chunks changes
  store atomic i64 %closed, ptr @claim seq_cst, align 64
  %count = trunc i64 %chunks to i32
  store atomic i32 %count, ptr @chunks seq_cst, align 4
  store atomic i64 %open, ptr @claim seq_cst, align 64
  %left = sub i32 %count, %begun_
  %wanted = sub i32 %left, 1
  call void @ring(i32 %wanted)
  br label %work
work:
  %did = call i1 @grab(i1 false)
  br i1 %did, label %work, label %rest
rest:
  call void @wait(i32 %count)
  br label %released
released:
  store atomic i32 0, ptr @owned release, align 64
  ret void
alone:
  br label %head
head:
  %i = phi i64 [0, %alone], [%following, %body]
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
  %b = atomicrmw add ptr @bell, i32 1 seq_cst
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
  store atomic i32 0, ptr @asleep seq_cst, align 4
  store atomic i32 0, ptr @waits seq_cst, align 4
  store atomic i32 0, ptr @owned seq_cst, align 64
  ret void
}
