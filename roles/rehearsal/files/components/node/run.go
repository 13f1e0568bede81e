package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Sockets in the folder "link" of the node's data, by which the two sides of the network namespace reach each other. Paths
// are relative to the data: that of a socket has room for 107 characters only.
const (
	apiSocket      = "link/api.sock"
	kubeletSocket  = "link/kubelet.sock"
	healthSocket   = "link/health.sock"
	registrySocket = "link/registry.sock"
)

// removal is the time that control groups get to disappear after the last process of the node.
const removal = 10 * time.Second

// run starts the node and waits until it ends or is to end.
func run(s settings) error {
	stop := ended()
	if err := prepareData(s.data); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	groups := hierarchies(string(mounts))
	// Left by a run that was killed.
	if err := removeGroups(groups, s.group, removal); err != nil {
		return fmt.Errorf("control groups of an earlier node are in use: %w", err)
	}
	s.rootless = os.Geteuid() != 0
	if !s.rootless {
		if err := makeGroups(groups, s.group); err != nil {
			log.Printf("pods run without limits of CPU and memory: %v", err)
		} else {
			s.limits = true
		}
	} else {
		log.Print("not root: pods run in a user namespace, without limits of CPU and memory, all as one user")
	}
	defer func() {
		if err := removeGroups(groups, s.group, removal); err != nil {
			log.Printf("control groups are left: %v", err)
		}
	}()
	relays := map[string]string{
		"unix:" + apiSocket: "tcp:" + s.api,
		"tcp:" + s.kubelet:  "unix:" + kubeletSocket,
		"tcp:" + s.health:   "unix:" + healthSocket,
	}
	if s.registry != "" {
		relays["unix:"+registrySocket] = "tcp:" + s.registry
	}
	for from, to := range relays {
		listener, err := relay(from, to)
		if err != nil {
			return err
		}
		defer listener.Close()
	}
	client, err := newClient(s.own)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	if err := balance(ctx, client, s.health); err != nil {
		return fmt.Errorf("load balancer: %w", err)
	}
	return supervise(s, stop)
}

// prepareData creates the missing folders of the node and enters the first.
func prepareData(data string) error {
	for _, one := range []string{"link", "log", "kubelet", "containerd", "volumes", "state"} {
		if err := os.MkdirAll(filepath.Join(data, one), 0o711); err != nil {
			return err
		}
	}
	// Any user of a pod writes to a volume: no provisioner gives it to the group of the pod. objects.yml names the folders.
	for _, one := range []string{"0", "1", "2", "3"} {
		volume := filepath.Join(data, "volumes", one)
		if err := os.MkdirAll(volume, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(volume, os.ModeSticky|0o777); err != nil {
			return err
		}
	}
	return os.Chdir(data)
}

// supervise starts init, and ends it when the signal comes. With init, the kernel ends all processes of its namespaces.
func supervise(s settings, stop <-chan os.Signal) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	// Init holds one end and ends when the other closes: even if we are killed before the kernel knows that it depends on us.
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	command := exec.Command(program, "init")
	command.Args = append(command.Args, os.Args[2:]...)
	command.Args = append(command.Args, fmt.Sprintf("-limits=%t", s.limits), fmt.Sprintf("-rootless=%t", s.rootless))
	command.Env = withoutName(os.Environ())
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{read}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if s.rootless {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("this machine permits no new namespaces (root, or unprivileged user namespaces, are required): %w", err)
	}
	read.Close()
	failed := make(chan error, 1)
	go func() { failed <- command.Wait() }()
	select {
	case err := <-failed:
		return fmt.Errorf("the node ended: %w", errors.Join(err, errors.New("see the lines above")))
	case <-stop:
		if err := command.Process.Kill(); err != nil {
			return err
		}
		<-failed
		return nil
	}
}

// withoutName removes the variable by which the rehearsal cluster would take init for a second run.
func withoutName(environment []string) []string {
	kept := []string{}
	for _, one := range environment {
		if !strings.HasPrefix(one, "SEATRIAL_PROCESS=") {
			kept = append(kept, one)
		}
	}
	return kept
}
