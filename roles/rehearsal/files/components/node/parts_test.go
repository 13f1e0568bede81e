package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRelayCarriesBothDirectionsAndTheEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			one, err := echo.Accept()
			if err != nil {
				return
			}
			// Answers only when the other side has ended its half.
			text, _ := io.ReadAll(one)
			_, _ = one.Write([]byte(strings.ToUpper(string(text))))
			one.Close()
		}
	}()
	write(t, "s.sock", "left by a run that was killed")
	listener, err := relay("unix:s.sock", "tcp:"+echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("unix", "s.sock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := near.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(near); err != nil || string(text) != "HELLO" {
		t.Errorf("%q %v", text, err)
	}
}

func TestRelayToNobodyClosesTheConnection(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := relay("tcp:127.0.0.1:0", "unix:nobody.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(near); len(text) != 0 {
		t.Errorf("%q", text)
	}
}

func TestReaperGivesTheEndOfEachProgram(t *testing.T) {
	r := newReaper()
	for _, one := range []struct{ script, wanted string }{
		{"exit 0", "exit code 0"}, {"exit 3", "exit code 3"}, {"kill -9 $$", "signal killed"}, {"sleep 0.1 & exit 4", "exit code 4"},
	} {
		done, err := r.start(os.Stderr, []string{"/bin/sh", "-c", one.script})
		if err != nil {
			t.Fatal(err)
		}
		if found := describe(<-done); found != one.wanted {
			t.Errorf("%s: %s", one.script, found)
		}
	}
	if _, err := r.start(os.Stderr, []string{"/no/such/program"}); err == nil {
		t.Error("no error")
	}
}

func TestAContainerWithoutGroupsKeepsEverythingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, `{"ociVersion": "1.1.0", "process": {"oomScoreAdj": 1000, "cwd": "/"},
		"mounts": [{"type": "cgroup", "destination": "/sys/fs/cgroup"}, {"type": "devpts", "options": ["gid=5", "ptmxmode=0666"]}, {"type": "proc"}],
		"linux": {"cgroupsPath": "/x", "resources": {"memory": {"limit": 1}}, "namespaces": [{"type": "pid"}, {"type": "cgroup"}], "seccomp": {}}}`)
	if err := relaxFile(path); err != nil {
		t.Fatal(err)
	}
	wanted := `{"linux":{"namespaces":[{"type":"pid"}],"seccomp":{}},"mounts":[{"options":["ptmxmode=0666"],"type":"devpts"},{"type":"proc"}],` +
		`"ociVersion":"1.1.0","process":{"cwd":"/"}}`
	if text := read(t, path); text != wanted {
		t.Error(text)
	}
}

func TestWithoutLimitsOurProgramTakesThePlaceOfRunc(t *testing.T) {
	s, err := parse(given())
	if err != nil {
		t.Fatal(err)
	}
	if placed(s)[binFolder+"/"+runcBehind] != "/bin/runc" || placed(s)[binFolder+"/runc"] != "" {
		t.Error(placed(s))
	}
	s.limits = true
	if placed(s)[binFolder+"/runc"] != "/bin/runc" {
		t.Error(placed(s))
	}
}

func TestKubeletHasLimitsOnlyWithGroups(t *testing.T) {
	s, err := parse(given())
	if err != nil {
		t.Fatal(err)
	}
	without := kubeletConfiguration(s)
	s.limits = true
	with := kubeletConfiguration(s)
	if without["cgroupsPerQOS"] != false || without["cgroupRoot"] != nil || with["cgroupRoot"] != "/seatrial-1a" || with["cgroupsPerQOS"] != nil {
		t.Error(without, with)
	}
	if _, err := json.Marshal(with); err != nil {
		t.Error(err)
	}
	if !json.Valid([]byte(networkConfiguration())) {
		t.Error(networkConfiguration())
	}
}

func TestInitHasNotTheNameOfRun(t *testing.T) {
	found := withoutName([]string{"SEATRIAL_INSTANCE=/x", "SEATRIAL_PROCESS=node", "TZ=UTC"})
	if strings.Join(found, " ") != "SEATRIAL_INSTANCE=/x TZ=UTC" {
		t.Error(found)
	}
}

func TestAProgramIsReadyOnceItSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ready.sock")
	ready, err := readiness(path)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	for _, message := range []string{"STATUS=starting", "READY=1"} {
		select {
		case <-ready:
			t.Fatalf("ready before %s", message)
		case <-time.After(50 * time.Millisecond):
		}
		if _, err := connection.Write([]byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	<-ready
}

func TestTheEndOfALogIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("1\n2\n3\n4\n5\n6\n7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := tail(path); found != "3\n4\n5\n6\n7" {
		t.Errorf("%q", found)
	}
}
