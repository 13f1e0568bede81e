package main

import (
	"context"
	"fmt"
	"net"
	"sort"
	"strings"
	"sync"

	"github.com/miekg/dns"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	domain    = "cluster.local."
	byService = "service"
)

// names answers for the services of the cluster. There is no kube-proxy, so the name of every service gives the addresses of its
// pods, as that of a headless one does. Nothing else can be reached from the node, so there is no other name.
type names struct {
	slices cache.Indexer
}

// serveNames answers on UDP and TCP as soon as the services are known.
func serveNames(ctx context.Context, client kubernetes.Interface, address string) error {
	informer := informers.NewSharedInformerFactory(client, 0).Discovery().V1().EndpointSlices().Informer()
	if err := informer.AddIndexers(cache.Indexers{byService: serviceOf}); err != nil {
		return err
	}
	go informer.Run(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the services can't be listed")
	}
	handler := &names{informer.GetIndexer()}
	for _, network := range []string{"udp", "tcp"} {
		var listening sync.WaitGroup
		listening.Add(1)
		server := &dns.Server{Addr: address, Net: network, Handler: handler, NotifyStartedFunc: listening.Done}
		failed := make(chan error, 1)
		go func() { failed <- server.ListenAndServe() }()
		started := make(chan struct{})
		go func() { listening.Wait(); close(started) }()
		select {
		case err := <-failed:
			return err
		case <-started:
		}
	}
	return nil
}

// serviceOf is the index of endpoint slices by namespace and service.
func serviceOf(thing any) ([]string, error) {
	slice, ok := thing.(*discoveryv1.EndpointSlice)
	if !ok || slice.AddressType != discoveryv1.AddressTypeIPv4 {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
}

func (n *names) ServeDNS(writer dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg).SetReply(question)
	answer.Authoritative = true
	if len(question.Question) == 1 {
		asked := question.Question[0]
		found, known := n.lookup(strings.ToLower(asked.Name))
		if !known {
			answer.Rcode = dns.RcodeNameError
		}
		if asked.Qtype == dns.TypeA && asked.Qclass == dns.ClassINET {
			for _, one := range found {
				head := dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 0}
				answer.Answer = append(answer.Answer, &dns.A{Hdr: head, A: one})
			}
		}
		size := dns.MinMsgSize
		if writer.RemoteAddr().Network() == "tcp" {
			size = dns.MaxMsgSize
		} else if option := question.IsEdns0(); option != nil {
			size = int(option.UDPSize())
		}
		answer.Truncate(size)
	}
	_ = writer.WriteMsg(answer)
}

// lookup returns the addresses of a name, and whether there is such a name: <service>.<namespace>.svc.cluster.local, or
// the same with the host name of one of its pods in front.
func (n *names) lookup(name string) ([]net.IP, bool) {
	short, inside := strings.CutSuffix(name, ".svc."+domain)
	parts := strings.Split(short, ".")
	if !inside || len(parts) < 2 || len(parts) > 3 {
		return nil, false
	}
	host := ""
	if len(parts) == 3 {
		host, parts = parts[0], parts[1:]
	}
	if host == "" && short == "kubernetes.default" {
		return []net.IP{net.ParseIP(serviceAddress)}, true
	}
	slices, err := n.slices.ByIndex(byService, parts[1]+"/"+parts[0])
	if err != nil || len(slices) == 0 {
		return nil, false
	}
	found := map[string]bool{}
	for _, thing := range slices {
		for _, one := range thing.(*discoveryv1.EndpointSlice).Endpoints {
			ready := one.Conditions.Ready == nil || *one.Conditions.Ready
			if ready && (host == "" || (one.Hostname != nil && *one.Hostname == host)) {
				for _, address := range one.Addresses {
					found[address] = true
				}
			}
		}
	}
	sorted := []string{}
	for one := range found {
		sorted = append(sorted, one)
	}
	sort.Strings(sorted)
	addresses := []net.IP{}
	for _, one := range sorted {
		addresses = append(addresses, net.ParseIP(one))
	}
	return addresses, host == "" || len(addresses) > 0
}
