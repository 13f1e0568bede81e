package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Folders of the node, all below its private /run, so that it does not matter where the machine keeps them.
const (
	home       = "/run/seatrial" // the node's data
	logFolder  = "/run/logs"
	binFolder  = "/run/bin"
	pkiFolder  = "/run/pki"
	imageFiles = "/run/images"
	temporary  = "/run/tmp"
	socket     = "/run/containerd/containerd.sock"
)

// sysctls are settings of the machine's kernel that kubelet wants, and would otherwise write.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// placed returns what the node needs of the machine's files, by its path in the node.
func placed(s settings) map[string]string {
	found := map[string]string{
		home:                       s.data,
		logFolder:                  s.logs,
		"/var/log":                 filepath.Join(s.data, "log"),
		pkiFolder + "/kubeconfig":  s.kubeconfig,
		pkiFolder + "/own":         s.own,
		pkiFolder + "/ca.crt":      s.authority,
		pkiFolder + "/serving.crt": s.serving + ".crt",
		pkiFolder + "/serving.key": s.serving + ".key",
	}
	for name, path := range s.programs {
		found[filepath.Join(binFolder, programName(name, s.limits))] = path
	}
	for number, path := range s.images {
		found[imageFolder(number)] = filepath.Dir(path)
	}
	return found
}

// programName is the name of a program in the node. Without limits, this program takes the place of runc.
func programName(name string, limits bool) string {
	if name == "runc" && !limits {
		return runcBehind
	}
	return name
}

// furnish makes the file systems of the node out of those of the machine. The node can only read these; it writes its data, its
// logs, its control groups and temporary folders.
func furnish(s settings) error {
	// Private first, so that no mount reaches the machine; then shared, because kubelet passes mounts on to containers.
	for _, flag := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", flag|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("propagation of /: %w", err)
		}
	}
	if err := unix.Sethostname([]byte(s.name)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	sources := placed(s)
	if !s.limits {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		sources[filepath.Join(binFolder, "runc")] = program
	}
	copies := map[string]int{}
	for target, path := range sources {
		copied, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		copies[target] = copied
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		return fmt.Errorf("making / read-only (Linux 5.12 or later is required): %w", err)
	}
	if s.limits {
		writable := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, "/sys/fs/cgroup", unix.AT_RECURSIVE, &writable); err != nil {
			return fmt.Errorf("control groups: %w", err)
		}
	}
	for _, one := range [][2]string{{"proc", "/proc"}, {"tmpfs", "/run"}, {"tmpfs", "/var/lib"}} {
		if err := unix.Mount(one[0], one[1], one[0], 0, ""); err != nil {
			return fmt.Errorf("%s on %s: %w", one[0], one[1], err)
		}
	}
	for _, one := range []string{binFolder, pkiFolder, imageFiles, temporary, "/run/containerd", "/run/cni"} {
		if err := os.MkdirAll(one, 0o755); err != nil {
			return err
		}
	}
	for target, copied := range copies {
		if err := place(copied, target); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return coverSysctls()
}

// place mounts a copied file or folder.
func place(copied int, target string) error {
	defer unix.Close(copied)
	var state unix.Stat_t
	if err := unix.Fstat(copied, &state); err != nil {
		return err
	}
	if _, err := os.Stat(target); os.IsNotExist(err) {
		if state.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = os.Mkdir(target, 0o755)
		} else {
			err = os.WriteFile(target, nil, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if err := unix.MoveMount(copied, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	return unix.Mount("", target, "", unix.MS_SHARED|unix.MS_REC, "")
}

// coverSysctls puts files with the wanted values over those of the kernel.
func coverSysctls() error {
	folder := "/run/sysctl"
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for name, value := range sysctls {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); os.IsNotExist(err) {
			continue
		}
		file := filepath.Join(folder, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return nil
}
