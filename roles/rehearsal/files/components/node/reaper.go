package main

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// reaper starts programs and collects the ends of all processes: those that others leave behind fall to process 1.
type reaper struct {
	lock    sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
	started chan struct{}
}

func newReaper() *reaper {
	r := &reaper{waiting: map[int]chan<- syscall.WaitStatus{}, started: make(chan struct{}, 1)}
	go r.reap()
	return r
}

func (r *reaper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			// No children: wait for the next start. Orphans come from started programs only, so none is missed for long.
			select {
			case <-r.started:
			case <-time.After(time.Second):
			}
			continue
		}
		// Start holds the lock until it has registered the process.
		r.lock.Lock()
		done := r.waiting[pid]
		delete(r.waiting, pid)
		r.lock.Unlock()
		if done != nil {
			done <- status
		}
	}
}

// start runs a program with further variables; the channel gives its end.
func (r *reaper) start(output *os.File, command []string, more ...string) (<-chan syscall.WaitStatus, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r.lock.Lock()
	defer r.lock.Unlock()
	pid, err := syscall.ForkExec(command[0], command, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(environment(), more...),
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
	})
	if err != nil {
		return nil, err
	}
	done := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = done
	select {
	case r.started <- struct{}{}:
	default:
	}
	return done, nil
}

// environment is that of the node's programs: ours, but with their own PATH and the node's temporary folder.
func environment() []string {
	kept := []string{"PATH=" + binFolder + ":/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + temporary, "HOME=" + home}
	for _, name := range []string{"SEATRIAL_INSTANCE", "SEATRIAL_STARTED_BY", "LANG", "TZ"} {
		if value, found := os.LookupEnv(name); found {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}
