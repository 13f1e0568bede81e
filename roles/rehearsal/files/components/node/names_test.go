package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func index(t *testing.T, slices ...*discoveryv1.EndpointSlice) *names {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byService: serviceOf})
	for _, one := range slices {
		if err := indexer.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	return &names{indexer}
}

func endpoint(address, host string, ready bool) discoveryv1.Endpoint {
	found := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if host != "" {
		found.Hostname = &host
	}
	return found
}

func slice(namespace, name, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	labels := map[string]string{discoveryv1.LabelServiceName: service}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	return &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints}
}

func TestNamesOfServicesAndOfTheirPods(t *testing.T) {
	n := index(t,
		slice("team", "a-1", "train", endpoint("10.144.1.3", "worker-0", true), endpoint("10.144.1.2", "", true)),
		slice("team", "a-2", "train", endpoint("10.144.1.4", "late", false)),
		slice("team", "b-1", "empty"),
	)
	for _, one := range []struct {
		name  string
		known bool
		found []string
	}{
		{"train.team.svc.cluster.local.", true, []string{"10.144.1.2", "10.144.1.3"}},
		{"worker-0.train.team.svc.cluster.local.", true, []string{"10.144.1.3"}},
		{"late.train.team.svc.cluster.local.", false, nil},
		{"empty.team.svc.cluster.local.", true, nil},
		{"train.other.svc.cluster.local.", false, nil},
		{"kubernetes.default.svc.cluster.local.", true, []string{serviceAddress}},
		{"a.b.train.team.svc.cluster.local.", false, nil},
		{"team.svc.cluster.local.", false, nil},
		{"example.com.", false, nil},
		{".", false, nil},
	} {
		addresses, known := n.lookup(one.name)
		found := []string{}
		for _, address := range addresses {
			found = append(found, address.String())
		}
		if known != one.known || !slices.Equal(found, one.found) {
			t.Errorf("%s: %v %v", one.name, found, known)
		}
	}
}

// A real server on loopback, asked by a real client.
func TestAnswersOverUDPAndTCP(t *testing.T) {
	endpoints := []discoveryv1.Endpoint{}
	for number := range 60 {
		endpoints = append(endpoints, endpoint(fmt.Sprintf("10.144.1.%d", number+2), "", true))
	}
	n := index(t, slice("team", "one", "train", endpoints...))
	for _, network := range []string{"udp", "tcp"} {
		started := make(chan struct{})
		server := &dns.Server{Addr: "127.0.0.1:0", Net: network, Handler: n, NotifyStartedFunc: func() { close(started) }}
		go func() { _ = server.ListenAndServe() }()
		<-started
		address := ""
		if network == "udp" {
			address = server.PacketConn.LocalAddr().String()
		} else {
			address = server.Listener.Addr().String()
		}
		ask := func(name string, kind uint16) *dns.Msg {
			question := new(dns.Msg).SetQuestion(name, kind)
			client := &dns.Client{Net: network}
			answer, _, err := client.ExchangeContext(context.Background(), question, address)
			if err != nil {
				t.Fatal(network, name, err)
			}
			return answer
		}
		answer := ask("Train.team.svc.cluster.local.", dns.TypeA)
		// What does not fit into a datagram is asked for again over TCP.
		if answer.Rcode != dns.RcodeSuccess || answer.Truncated != (network == "udp") {
			t.Errorf("%s: %v", network, answer)
		}
		if network == "tcp" && len(answer.Answer) != 60 {
			t.Errorf("%d answers", len(answer.Answer))
		}
		if answer := ask("train.team.svc.cluster.local.", dns.TypeAAAA); answer.Rcode != dns.RcodeSuccess || len(answer.Answer) != 0 {
			t.Error(answer)
		}
		if answer := ask("example.com.", dns.TypeA); answer.Rcode != dns.RcodeNameError {
			t.Error(answer)
		}
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

func TestANodeIsReadyWhenItsKubeletHasSaidSoSince(t *testing.T) {
	since := metav1.Now()
	before := metav1.NewTime(since.Add(-1e12))
	condition := func(status corev1.ConditionStatus, beat metav1.Time) corev1.NodeStatus {
		return corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: beat}}}
	}
	tainted := corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady}}}
	own := corev1.NodeSpec{Taints: []corev1.Taint{{Key: realKey}}}
	for _, one := range []struct {
		node   corev1.Node
		wanted bool
	}{
		{corev1.Node{Spec: own, Status: condition(corev1.ConditionTrue, since)}, true},
		{corev1.Node{Spec: own, Status: condition(corev1.ConditionTrue, before)}, false},
		{corev1.Node{Spec: own, Status: condition(corev1.ConditionFalse, since)}, false},
		{corev1.Node{Spec: tainted, Status: condition(corev1.ConditionTrue, since)}, false},
		{corev1.Node{Spec: own}, false},
	} {
		if found := schedulable(&one.node, since.Time); found != one.wanted {
			t.Errorf("%+v: %t", one.node, found)
		}
	}
}
