// The Operator Lifecycle Manager of a rehearsal cluster, as processes on the host.
//
//	olm operators   OLM's own two controllers (olm and catalog), which on a cluster run in pods
//	olm catalog     serves catalogs of operators over gRPC, as a registry pod does
//	olm play        does what the operators of these catalogs would do with their custom resources
//
// The published programs listen on all addresses at a fixed port; here everything listens on loopback.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"
)

// pairs collects repeated flags of the form name=value, in the order given.
type pairs [][2]string

func (p *pairs) String() string { return fmt.Sprint(*p) }

func (p *pairs) Set(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%q: name=value is needed", text)
	}
	*p = append(*p, [2]string{name, value})
	return nil
}

// list collects repeated flags.
type list []string

func (l *list) String() string { return fmt.Sprint(*l) }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// options of all three commands; each uses its own.
type options struct {
	health, kubeconfig, file, others, namespace string
	certificate, key, webhook                   string
	catalogs                                    pairs
	definitions                                 list
}

// readiness answers /readyz with 200 once it is set.
type readiness struct{ atomic.Bool }

func (r *readiness) serve(address string, log *logrus.Logger) {
	handler := http.NewServeMux()
	handler.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !r.Load() {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
		}
	})
	log.Fatal(http.ListenAndServe(address, handler))
}

func main() {
	commands := map[string]func(context.Context, options, *readiness, *logrus.Logger) error{
		"operators": runOperators, "catalog": runCatalog, "play": runPlayer,
	}
	var command func(context.Context, options, *readiness, *logrus.Logger) error
	if len(os.Args) > 1 {
		command = commands[os.Args[1]]
	}
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: olm operators|catalog|play [flags]")
		os.Exit(2)
	}
	var o options
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&o.health, "health", "127.0.0.1:0", "address of /readyz")
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster")
	flags.StringVar(&o.file, "file", "", "file with the catalogs' operators")
	flags.StringVar(&o.others, "others", "", "address of the catalog that stands for every catalog image")
	flags.StringVar(&o.namespace, "namespace", "openshift-marketplace", "namespace of the catalogs for all namespaces")
	flags.StringVar(&o.webhook, "webhook", "", "address of the webhook of OpenShift AI")
	flags.StringVar(&o.certificate, "certificate", "", "certificate of the webhook")
	flags.StringVar(&o.key, "key", "", "private key of the webhook")
	flags.Var(&o.definitions, "definitions", "file with CustomResourceDefinitions that bundles bring; repeated")
	flags.Var(&o.catalogs, "catalog", "name=address of a catalog; repeated")
	_ = flags.Parse(os.Args[2:])

	log := logrus.New()
	// At the info level OLM writes several lines for every object that it looks at.
	log.SetLevel(logrus.WarnLevel)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ready := &readiness{}
	go ready.serve(o.health, log)
	if err := command(ctx, o, ready, log); err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "olm %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
