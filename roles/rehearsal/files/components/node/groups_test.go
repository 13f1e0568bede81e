package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHierarchiesOfBothVersionsAreFound(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "cgroup.subtree_control"), "cpu memory pids\n")
	text := strings.Join([]string{
		"25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
		"30 25 0:26 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct",
		"31 25 0:27 / " + folder + " rw,nosuid shared:9 - cgroup2 cgroup2 rw",
		"",
	}, "\n")
	found := hierarchies(text)
	if len(found) != 2 || found[0].folder != "/sys/fs/cgroup/cpu" || !slices.Contains(found[0].controllers, "cpuacct") || found[0].unified {
		t.Fatalf("%+v", found)
	}
	if !found[1].unified || !slices.Equal(found[1].controllers, []string{"cpu", "memory", "pids"}) {
		t.Errorf("%+v", found[1])
	}
}

func TestGroupsAreMadeInEveryHierarchyAndRemoved(t *testing.T) {
	folder := t.TempDir()
	all := []hierarchy{
		{filepath.Join(folder, "cpuset"), []string{"rw", "cpuset"}, false},
		{filepath.Join(folder, "others"), []string{"rw", "cpu", "memory"}, false},
		{filepath.Join(folder, "unified"), []string{"pids"}, true},
	}
	write(t, filepath.Join(folder, "cpuset", "cpuset.cpus"), "0-1\n")
	write(t, filepath.Join(folder, "cpuset", "cpuset.mems"), "0\n")
	for _, one := range all {
		if err := os.MkdirAll(one.folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Twice: groups that are there are no error.
	for range 2 {
		if err := makeGroups(all, "seatrial-x"); err != nil {
			t.Fatal(err)
		}
	}
	if text := read(t, filepath.Join(folder, "cpuset", "seatrial-x", "cpuset.cpus")); text != "0-1\n" {
		t.Errorf("%q", text)
	}
	if text := read(t, filepath.Join(folder, "unified", "seatrial-x", "cgroup.subtree_control")); text != "+pids" {
		t.Errorf("%q", text)
	}
	// Those files can be removed only here: in a real hierarchy they go with their group.
	for _, one := range []string{"cpuset/seatrial-x/cpuset.cpus", "cpuset/seatrial-x/cpuset.mems", "unified/seatrial-x/cgroup.subtree_control"} {
		if err := os.Remove(filepath.Join(folder, one)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, "others", "seatrial-x", "kubepods", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeGroups(all, "seatrial-x", time.Second); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if _, err := os.Stat(filepath.Join(one.folder, "seatrial-x")); !os.IsNotExist(err) {
			t.Errorf("%s: %v", one.folder, err)
		}
	}
}

func TestAMissingControllerIsNamed(t *testing.T) {
	err := makeGroups([]hierarchy{{t.TempDir(), []string{"cpu", "cpuset", "pids"}, true}}, "x")
	if err == nil || !strings.Contains(err.Error(), "controller memory") {
		t.Error(err)
	}
}

func TestAGroupInUseIsReported(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "x", "busy"), "")
	if err := removeGroups([]hierarchy{{folder, nil, false}}, "x", 0); err == nil {
		t.Error("no error")
	}
}
