package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// answering starts a server that says its name to each connection, after it has read a line.
func answering(t *testing.T, name string) int32 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			one, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(one).ReadString('\n')
			fmt.Fprintf(one, "%s %s", name, line)
			one.Close()
		}
	}()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

func ask(address string) string {
	one, err := net.Dial("tcp", address)
	if err != nil {
		return "no connection"
	}
	defer one.Close()
	fmt.Fprintln(one, "hello")
	text, _ := bufio.NewReader(one).ReadString('\n')
	return text
}

func sliceOf(name string, port int32, ready bool) *discoveryv1.EndpointSlice {
	named := "http"
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &named, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

func TestServiceGetsAnAddressAndItsReadyPodsTakeTurns(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("link", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := relayToPods(podsSocket); err != nil {
		t.Fatal(err)
	}
	held, err := net.Listen("tcp", "127.0.0.1:0") // its port makes the address this test's own
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "1"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "http", Port: 8000, Protocol: corev1.ProtocolTCP}}},
	}
	client := fake.NewClientset(service, sliceOf("first", answering(t, "first"), true),
		sliceOf("second", answering(t, "second"), true), sliceOf("third", answering(t, "third"), false))
	ctx, end := context.WithCancel(context.Background())
	defer end()
	if err := balance(ctx, client, held.Addr().String()); err != nil {
		t.Fatal(err)
	}
	address := ""
	for wait := 0; address == "" && wait < 200; wait++ {
		time.Sleep(50 * time.Millisecond)
		now, err := client.CoreV1().Services("a").Get(ctx, "s", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range now.Status.LoadBalancer.Ingress {
			address = net.JoinHostPort(one.IP, "8000")
		}
	}
	answers := map[string]int{}
	for range 10 {
		answers[ask(address)]++
	}
	if answers["first hello\n"] != 5 || answers["second hello\n"] != 5 {
		t.Fatalf("%s: %v", address, answers)
	}
	if err := client.CoreV1().Services("a").Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for wait := 0; ask(address) != "no connection"; wait++ {
		if wait == 200 {
			t.Fatal("the address of a deleted service is still served")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestServiceWhosePortIsTakenSaysSoUntilThePortIsFree(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0") // its port makes the address this test's own
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	network, err := networkOf(held.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", network+".1:8000")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	client := fake.NewClientset(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "1"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 8000}}},
	})
	ctx, end := context.WithCancel(context.Background())
	defer end()
	if err := balance(ctx, client, held.Addr().String()); err != nil {
		t.Fatal(err)
	}
	wait := func(what string, holds func(corev1.ServiceStatus) bool) {
		t.Helper()
		for range 400 {
			now, err := client.CoreV1().Services("a").Get(ctx, "s", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if holds(now.Status) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal(what)
	}
	wait("the status does not say why there is no address", func(status corev1.ServiceStatus) bool {
		one := meta.FindStatusCondition(status.Conditions, "Balanced")
		return one != nil && one.Status == metav1.ConditionFalse && one.Reason == "CannotListen" &&
			strings.Contains(one.Message, network+".1:8000") && len(status.LoadBalancer.Ingress) == 0
	})
	other.Close()
	wait("the condition stays, or there is no address", func(status corev1.ServiceStatus) bool {
		return len(status.LoadBalancer.Ingress) == 1 && len(status.Conditions) == 0
	})
}

// crowded is a listener whose first connection fails, as with too many open files.
type crowded struct {
	net.Listener
	failed bool
}

func (c *crowded) Accept() (net.Conn, error) {
	if !c.failed {
		c.failed = true
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return c.Listener.Accept()
}

func TestConnectionsAreAcceptedAfterOneFailed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		acceptAll(&crowded{Listener: listener}, func(near net.Conn) {
			fmt.Fprintln(near, "taken")
			near.Close()
		})
		close(over)
	}()
	if text := ask(listener.Addr().String()); text != "taken\n" {
		t.Fatalf("%q", text)
	}
	listener.Close()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("a closed listener is still waited for")
	}
}

func TestEachInstanceHasItsOwnNetwork(t *testing.T) {
	for address, wanted := range map[string]string{"127.0.0.1:40000": "127.156.64", "127.0.0.1:256": "127.1.0"} {
		if got, err := networkOf(address); err != nil || got != wanted {
			t.Errorf("%s: %s, %v", address, got, err)
		}
	}
	for _, address := range []string{"127.0.0.1:80", "127.0.0.1", "127.0.0.1:70000"} {
		if _, err := networkOf(address); err == nil {
			t.Errorf("%s has a network", address)
		}
	}
}
