package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Addresses inside the node's network namespace. Nothing of them exists on the machine.
const (
	nodeAddress    = "10.144.0.1"
	podRange       = "10.144.1.0/24"
	serviceAddress = "10.96.0.1"
	namesAddress   = "10.96.0.10"
	// A container runtime speaks HTTP without TLS only with a registry on loopback.
	registryAddress = "127.0.0.1:5000"
)

// readySocket is where containerd says that it is ready, as it would to systemd. Its socket answers earlier, but then a kubelet
// is refused, and ends.
const readySocket = "/run/ready.sock"

// patience is how long init waits for containerd.
const patience = 60 * time.Second

// shown is the number of lines of a log that an error contains.
const shown = 5

// initNode is process 1 of the node. It returns only with an error, and with it the node ends.
func initNode(s settings) error {
	go endWithRun()
	reaped := newReaper()
	if err := furnish(s); err != nil {
		return fmt.Errorf("the node's file systems: %w", err)
	}
	if err := addresses(nodeAddress, serviceAddress, namesAddress); err != nil {
		return fmt.Errorf("the node's addresses: %w", err)
	}
	var ready atomic.Bool
	if err := innerRelays(s, &ready); err != nil {
		return err
	}
	ctx := context.Background()
	client, err := newClient(filepath.Join(pkiFolder, "own"))
	if err != nil {
		return err
	}
	if err := serveNames(ctx, client, net.JoinHostPort(namesAddress, "53")); err != nil {
		return fmt.Errorf("name resolution: %w", err)
	}
	snapshotter, err := snapshotterFor(home)
	if err != nil {
		return err
	}
	if err := writeConfigurations(s, snapshotter); err != nil {
		return err
	}
	if err := showTrees(s); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	ends := make(chan error, 2)
	answers, err := readiness(readySocket)
	if err != nil {
		return err
	}
	if err := startPart(s, reaped, ends, []string{"NOTIFY_SOCKET=" + readySocket}, "containerd", "--config", home+"/state/containerd.toml"); err != nil {
		return err
	}
	select {
	case <-answers:
	case err := <-ends:
		return err
	case <-time.After(patience):
		return fmt.Errorf("containerd is not ready after %s; see node-containerd.log", patience)
	}
	if err := importImages(s, reaped, snapshotter); err != nil {
		return err
	}
	if err := registerNode(ctx, client, s.name); err != nil {
		return fmt.Errorf("node %s: %w", s.name, err)
	}
	if err := startPart(s, reaped, ends, nil, "kubelet", kubeletArguments(s)...); err != nil {
		return err
	}
	go func() {
		awaitReady(ctx, client, s.name)
		ready.Store(true)
	}()
	return <-ends
}

// endWithRun ends the node when run has ended, of which the kernel closes the other end of the pipe.
func endWithRun() {
	_, _ = os.NewFile(3, "run").Read(make([]byte, 1))
	log.Print("run has ended")
	os.Exit(1)
}

// innerRelays carry connections of the node to the API server, and the machine's to the kubelet and to the health answer.
func innerRelays(s settings, ready *atomic.Bool) error {
	_, port, err := net.SplitHostPort(s.api)
	if err != nil {
		return err
	}
	api := "unix:" + filepath.Join(home, apiSocket)
	// Kubeconfigs name the API server by its address on the machine, pods by its service.
	for _, from := range []string{"tcp:127.0.0.1:" + port, "tcp:" + serviceAddress + ":443"} {
		if _, err := relay(from, api); err != nil {
			return err
		}
	}
	if s.registry != "" {
		if _, err := relay("tcp:"+registryAddress, "unix:"+filepath.Join(home, registrySocket)); err != nil {
			return err
		}
	}
	kubelet := fmt.Sprintf("tcp:%s:%d", nodeAddress, s.port)
	if _, err := relay("unix:"+filepath.Join(home, kubeletSocket), kubelet); err != nil {
		return err
	}
	if err := relayToPods(filepath.Join(home, podsSocket)); err != nil {
		return err
	}
	listener, err := listenUnix(filepath.Join(home, healthSocket))
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			if !ready.Load() {
				http.Error(answer, "the node is not Ready yet", http.StatusServiceUnavailable)
			}
		}))
	}()
	return nil
}

// readiness opens a socket in the manner of systemd; the channel closes when a program writes there that it is ready.
func readiness(path string) (<-chan struct{}, error) {
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go func() {
		defer listener.Close()
		message := make([]byte, 256)
		for {
			size, err := listener.Read(message)
			if err != nil {
				log.Printf("%s: %v", path, err)
				return
			}
			if strings.Contains(string(message[:size]), "READY=1") {
				close(ready)
				return
			}
		}
	}()
	return ready, nil
}

// awayFile exists while the kubelet is not to run: a test of failures makes it, kills the kubelet, and removes it later.
const awayFile = "state/kubelet-away"

// startPart starts a program with further variables. It runs as long as the node; its end ends the node, except that of a
// kubelet which ends while awayFile is there: it starts again when the file is gone.
func startPart(s settings, reaped *reaper, ends chan<- error, more []string, name string, arguments ...string) error {
	path := filepath.Join(logFolder, "node-"+name+".log")
	output, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	done, err := reaped.start(output, append([]string{filepath.Join(binFolder, name)}, arguments...), more...)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		status := <-done
		if away := filepath.Join(home, awayFile); name == "kubelet" && exists(away) {
			log.Printf("the kubelet ended (%s); it starts again when %s is gone", describe(status), away)
			for exists(away) {
				time.Sleep(100 * time.Millisecond)
			}
			if err := startPart(s, reaped, ends, more, name, arguments...); err != nil {
				ends <- err
			}
			return
		}
		ends <- fmt.Errorf("%s ended (%s); the end of node-%s.log:\n%s", name, describe(status), name, tail(path))
	}()
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tail returns the last lines of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-shown):], "\n")
}

// describe returns how a process ended.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}
