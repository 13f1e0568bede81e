package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// balancedCondition of a service is False, with the reason in its message, while it can't get an address.
const balancedCondition = "Balanced"

// podsSocket carries connections to pods: the first line is the address of the pod.
const podsSocket = "link/pods.sock"

// balancer gives each service of type LoadBalancer an address on the machine's loopback, and carries what reaches its ports
// to the ready pods of the node, one connection after the other to each.
type balancer struct {
	client   kubernetes.Interface
	network  string // the first three numbers of its addresses, which no other instance has
	services corelisters.ServiceLister
	slices   cache.Indexer
	changed  chan struct{}
	held     map[types.UID]*balanced
}

// balanced is a service with an address. ports: what it listens on, to know when they have changed.
type balanced struct {
	number    int
	ports     string
	listeners []net.Listener
}

// networkOf returns the network of the addresses of an instance: it alone has the port of its health answer.
func networkOf(health string) (string, error) {
	_, text, err := net.SplitHostPort(health)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 256 || port > 65535 {
		return "", fmt.Errorf("port %q is none above 255", text)
	}
	return fmt.Sprintf("127.%d.%d", port>>8, port&255), nil
}

// balance serves the services of type LoadBalancer until the context ends.
func balance(ctx context.Context, client kubernetes.Interface, health string) error {
	network, err := networkOf(health)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services, slices := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices().Informer()
	if err := slices.AddIndexers(cache.Indexers{byService: serviceOf}); err != nil {
		return err
	}
	b := &balancer{client: client, network: network, services: services.Lister(), slices: slices.GetIndexer(),
		changed: make(chan struct{}, 1), held: map[types.UID]*balanced{}}
	_, err = services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { b.look() }, UpdateFunc: func(any, any) { b.look() }, DeleteFunc: func(any) { b.look() }})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	go func() {
		factory.WaitForCacheSync(ctx.Done())
		for {
			select {
			case <-ctx.Done():
				for uid := range b.held {
					b.release(uid)
				}
				return
			case <-b.changed:
				if err := b.reconcile(ctx); err != nil {
					log.Printf("load balancer: %v", err)
					time.AfterFunc(time.Second, b.look)
				}
			}
		}
	}()
	return nil
}

// look has the services looked at again. Several calls may be one look.
func (b *balancer) look() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *balancer) reconcile(ctx context.Context) error {
	all, err := b.services.List(labels.Everything())
	if err != nil {
		return err
	}
	wanted := map[types.UID]*corev1.Service{}
	for _, service := range all {
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil && service.DeletionTimestamp == nil {
			wanted[service.UID] = service
		}
	}
	for uid, have := range b.held {
		if service := wanted[uid]; service == nil || portsOf(service) != have.ports {
			b.release(uid)
		}
	}
	failed := []error{}
	for uid, service := range wanted {
		if b.held[uid] == nil {
			if err := b.take(service); err != nil {
				failed = append(failed, fmt.Errorf("service %s/%s: %w", service.Namespace, service.Name, err), b.refuse(ctx, service, err))
				continue
			}
		}
		failed = append(failed, b.publish(ctx, service))
	}
	return errors.Join(failed...)
}

// take listens on the ports of a service.
func (b *balancer) take(service *corev1.Service) error {
	used := map[int]bool{}
	for _, one := range b.held {
		used[one.number] = true
	}
	number := 1
	for used[number] {
		number++
	}
	if number > 254 {
		return errors.New("all 254 addresses are in use")
	}
	got := &balanced{number: number, ports: portsOf(service)}
	for _, port := range service.Spec.Ports {
		if port.Protocol != "" && port.Protocol != corev1.ProtocolTCP {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(b.address(number), strconv.Itoa(int(port.Port))))
		if err != nil {
			closeAll(got.listeners)
			return err
		}
		got.listeners = append(got.listeners, listener)
		key, name := service.Namespace+"/"+service.Name, port.Name
		var turn atomic.Uint64
		go accept(listener, func() string {
			addresses := endpointsOf(b.slices, key, name)
			if len(addresses) == 0 {
				return ""
			}
			return addresses[int(turn.Add(1)-1)%len(addresses)]
		})
	}
	b.held[service.UID] = got
	return nil
}

func (b *balancer) release(uid types.UID) {
	closeAll(b.held[uid].listeners)
	delete(b.held, uid)
}

func (b *balancer) address(number int) string { return fmt.Sprintf("%s.%d", b.network, number) }

// refuse writes into the status of a service why it has no address.
func (b *balancer) refuse(ctx context.Context, service *corev1.Service, why error) error {
	changed := service.DeepCopy()
	changed.Status.LoadBalancer.Ingress = nil
	differs := meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{Type: balancedCondition,
		Status: metav1.ConditionFalse, Reason: "CannotListen", Message: why.Error()})
	if !differs && len(service.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	_, err := b.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}

// publish writes the address into the status of a service.
func (b *balancer) publish(ctx context.Context, service *corev1.Service) error {
	address := b.address(b.held[service.UID].number)
	changed := service.DeepCopy()
	refused := meta.RemoveStatusCondition(&changed.Status.Conditions, balancedCondition)
	if have := service.Status.LoadBalancer.Ingress; !refused && len(have) == 1 && have[0].IP == address {
		return nil
	}
	changed.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	_, err := b.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return err
}

func closeAll(listeners []net.Listener) {
	for _, one := range listeners {
		one.Close()
	}
}

func portsOf(service *corev1.Service) string {
	parts := []string{}
	for _, port := range service.Spec.Ports {
		parts = append(parts, fmt.Sprintf("%s=%d/%s", port.Name, port.Port, port.Protocol))
	}
	return strings.Join(parts, ",")
}

// endpointsOf returns the addresses of the ready pods of a service, with the port of this name.
func endpointsOf(slices cache.Indexer, service, port string) []string {
	found, err := slices.ByIndex(byService, service)
	if err != nil {
		return nil
	}
	addresses := []string{}
	for _, thing := range found {
		slice := thing.(*discoveryv1.EndpointSlice)
		for _, each := range slice.Ports {
			if each.Port == nil || (each.Name != nil && *each.Name != port) {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					for _, address := range endpoint.Addresses {
						addresses = append(addresses, net.JoinHostPort(address, strconv.Itoa(int(*each.Port))))
					}
				}
			}
		}
	}
	sort.Strings(addresses) // the index has no order, and turns need one
	return addresses
}

// accept carries connections to the pod that choose names; without one it closes them.
func accept(listener net.Listener, choose func() string) {
	acceptAll(listener, func(near net.Conn) {
		if pod := choose(); pod != "" {
			go carryTo(near, "unix", podsSocket, pod+"\n")
		} else {
			near.Close()
		}
	})
}

// relayToPods takes the connections of run's balancer inside the node.
func relayToPods(path string) error {
	listener, err := listenUnix(path)
	if err != nil {
		return err
	}
	go acceptAll(listener, func(near net.Conn) {
		go func() {
			reader := bufio.NewReaderSize(near, 64)
			line, err := reader.ReadString('\n')
			if err != nil {
				near.Close()
				return
			}
			carryTo(&begun{near, reader}, "tcp", strings.TrimSuffix(line, "\n"), "")
		}()
	})
	return nil
}

// begun is a connection whose first bytes are in a buffer.
type begun struct {
	net.Conn
	buffered *bufio.Reader
}

func (c *begun) WriteTo(to io.Writer) (int64, error) {
	head, err := c.buffered.Peek(c.buffered.Buffered())
	if err != nil {
		return 0, err
	}
	n, err := to.Write(head)
	if err != nil {
		return int64(n), err
	}
	more, err := io.Copy(to, c.Conn)
	return int64(n) + more, err
}

func (c *begun) CloseWrite() error {
	if one, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return one.CloseWrite()
	}
	return nil
}
