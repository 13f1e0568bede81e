package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Controllers without which kubelet does not start.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// hierarchy is a mounted control group hierarchy.
type hierarchy struct {
	folder      string
	controllers []string
	unified     bool
}

// hierarchies reads the mounted hierarchies from the text of /proc/self/mountinfo.
func hierarchies(text string) []hierarchy {
	found := []hierarchy{}
	for _, line := range strings.Split(text, "\n") {
		// The fields after " - " are type, source and options of the file system.
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup":
			found = append(found, hierarchy{left[4], strings.Split(right[2], ","), false})
		case "cgroup2":
			enabled, err := os.ReadFile(filepath.Join(left[4], "cgroup.subtree_control"))
			if err == nil {
				found = append(found, hierarchy{left[4], strings.Fields(string(enabled)), true})
			}
		}
	}
	return found
}

// makeGroups makes the control group of the node in every hierarchy. Only new groups are changed, never their parents.
func makeGroups(all []hierarchy, name string) error {
	have := []string{}
	for _, one := range all {
		have = append(have, one.controllers...)
	}
	for _, one := range needed {
		if !slices.Contains(have, one) {
			return fmt.Errorf("no control group hierarchy offers controller %s", one)
		}
	}
	for _, one := range all {
		folder := filepath.Join(one.folder, name)
		if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A new group of the first version has no processors and no memory nodes.
		if slices.Contains(one.controllers, "cpuset") && !one.unified {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				value, err := os.ReadFile(filepath.Join(one.folder, file))
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, file), value, 0o644)
				}
				if err != nil {
					return err
				}
			}
		}
		if one.unified && len(one.controllers) > 0 {
			wanted := "+" + strings.Join(one.controllers, " +")
			if err := os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte(wanted), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeGroups removes the node's control groups and all below them, the innermost first. A group stays for a moment after
// its last process has ended.
func removeGroups(all []hierarchy, name string, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		var left error
		for _, one := range all {
			if err := removeGroup(filepath.Join(one.folder, name)); err != nil {
				left = err
			}
		}
		if left == nil || time.Now().After(deadline) {
			return left
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// removeGroup removes a group and those below it. Files of a group can't be removed, and go with it.
func removeGroup(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, one := range entries {
		if one.IsDir() {
			if err := removeGroup(filepath.Join(folder, one.Name())); err != nil {
				return err
			}
		}
	}
	err = os.Remove(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
