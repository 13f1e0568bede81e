// A real node on this machine: kubelet, containerd and runc in separate namespaces.
//
// "node run" is the process that the rehearsal cluster starts. It makes control groups, carries connections between the
// machine's loopback and the node, and starts "node init" as process 1 of new mount, pid, network, UTS and IPC namespaces.
// Everything that a node leaves in a machine lies in these namespaces and ends with process 1; run removes the rest.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// settings are the options of both commands: init gets the arguments of run.
type settings struct {
	name       string
	data       string
	logs       string
	group      string
	api        string
	kubelet    string
	port       int
	registry   string
	health     string
	kubeconfig string
	own        string
	authority  string
	serving    string
	programs   pairs
	images     list
	limits     bool
	rootless   bool
}

// pairs is an option name=value that may be repeated.
type pairs map[string]string

func (p pairs) String() string { return fmt.Sprint(map[string]string(p)) }

func (p pairs) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" || value == "" {
		return fmt.Errorf("%q is not name=path", text)
	}
	p[name] = value
	return nil
}

// list is an option that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

func parse(arguments []string) (settings, error) {
	s := settings{programs: pairs{}}
	flags := flag.NewFlagSet("node", flag.ContinueOnError)
	flags.StringVar(&s.name, "name", "real-0", "name of the node")
	flags.StringVar(&s.data, "data", "", "folder of the node's files")
	flags.StringVar(&s.logs, "logs", "", "folder of the logs of kubelet and containerd")
	flags.StringVar(&s.group, "group", "", "name of the node's control groups")
	flags.StringVar(&s.api, "api", "", "address of the API server, host:port")
	flags.StringVar(&s.kubelet, "kubelet", "", "address of the kubelet on the machine, host:port; inside the node it has the same port")
	flags.StringVar(&s.registry, "registry", "", "address of a registry on the machine, host:port; inside the node it is localhost:5000")
	flags.StringVar(&s.health, "health", "", "address that answers when the node is ready, host:port")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the kubelet")
	flags.StringVar(&s.own, "own-kubeconfig", "", "kubeconfig of this program")
	flags.StringVar(&s.authority, "authority", "", "certificate of the cluster's authority")
	flags.StringVar(&s.serving, "serving", "", "certificate of the kubelet's server, without .crt and .key")
	flags.Var(s.programs, "program", "a program that the node runs, name=path; repeated")
	flags.Var(&s.images, "image", "archive of an image, which is imported; its file tree lies beside it; repeated")
	flags.BoolVar(&s.limits, "limits", false, "set by run: whether control groups are there")
	flags.BoolVar(&s.rootless, "rootless", false, "set by run: whether the node is in a user namespace")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	for name, value := range map[string]string{
		"data": s.data, "logs": s.logs, "group": s.group, "api": s.api, "health": s.health, "kubelet": s.kubelet, "kubeconfig": s.kubeconfig,
		"own-kubeconfig": s.own, "authority": s.authority, "serving": s.serving,
	} {
		if value == "" {
			return s, fmt.Errorf("-%s is required", name)
		}
	}
	_, port, _ := net.SplitHostPort(s.kubelet)
	var err error
	if s.port, err = strconv.Atoi(port); err != nil || s.port < 1 || s.port > 65535 {
		return s, fmt.Errorf("-kubelet is %q, not host:port", s.kubelet)
	}
	if strings.Trim(s.group, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return s, fmt.Errorf("-group is %q: lower-case letters, digits and dashes only", s.group)
	}
	for _, path := range []string{s.data, s.logs} {
		if !filepath.IsAbs(path) {
			return s, fmt.Errorf("%s is not an absolute path", path)
		}
	}
	for _, name := range []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "bridge", "host-local"} {
		if s.programs[name] == "" {
			return s, fmt.Errorf("-program %s=path is required", name)
		}
	}
	return s, nil
}

func main() {
	// The kernel ends init when the thread that started it ends: that must be the thread that lives as long as run.
	runtime.LockOSThread()
	if filepath.Base(os.Args[0]) == "runc" {
		if err := runcWithoutGroups(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "node runc:", err)
			os.Exit(1)
		}
	}
	log.SetFlags(log.Ldate | log.Ltime | log.Lmicroseconds | log.LUTC)
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	commands := map[string]func(settings) error{"run": run, "init": initNode}
	act := commands[command]
	if act == nil {
		fmt.Fprintln(os.Stderr, "usage: node run|init -name=real-0 …")
		os.Exit(2)
	}
	s, err := parse(os.Args[2:])
	if err == nil {
		log.SetPrefix("node " + command + ": ")
		err = act(s)
	}
	if err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

// ended returns a channel that closes at the first SIGTERM or SIGINT.
func ended() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}
