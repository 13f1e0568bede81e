package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// runcBehind is the name of the real runc where this program takes its place.
const runcBehind = "runc.real"

// runcWithoutGroups runs runc, after it has removed from a new container's configuration what needs control groups or a second
// user. It returns only with an error.
func runcWithoutGroups(arguments []string) error {
	if slices.Contains(arguments, "create") {
		if place := slices.Index(arguments, "--bundle"); place >= 0 && place+1 < len(arguments) {
			if err := relaxFile(filepath.Join(arguments[place+1], "config.json")); err != nil {
				return err
			}
		}
	}
	return syscall.Exec(filepath.Join(binFolder, runcBehind), append([]string{"runc"}, arguments...), os.Environ())
}

func relaxFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var configuration map[string]any
	if err := json.Unmarshal(text, &configuration); err != nil {
		return err
	}
	relax(configuration)
	if text, err = json.Marshal(configuration); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// relax changes a container's configuration (OCI runtime specification).
func relax(configuration map[string]any) {
	if linux, ok := configuration["linux"].(map[string]any); ok {
		delete(linux, "cgroupsPath")
		delete(linux, "resources")
		if spaces, ok := linux["namespaces"].([]any); ok {
			linux["namespaces"] = slices.DeleteFunc(spaces, func(one any) bool { return field(one, "type") == "cgroup" })
		}
	}
	if process, ok := configuration["process"].(map[string]any); ok {
		delete(process, "oomScoreAdj")
	}
	if mounts, ok := configuration["mounts"].([]any); ok {
		mounts = slices.DeleteFunc(mounts, func(one any) bool { return field(one, "type") == "cgroup" })
		for _, one := range mounts {
			if options, ok := one.(map[string]any)["options"].([]any); ok {
				one.(map[string]any)["options"] = slices.DeleteFunc(options, func(option any) bool { return option == "gid=5" })
			}
		}
		configuration["mounts"] = mounts
	}
}

func field(thing any, name string) any {
	if found, ok := thing.(map[string]any); ok {
		return found[name]
	}
	return nil
}
