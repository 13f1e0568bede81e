// Serves custom.metrics.k8s.io: the metrics that pods of the real node serve in the text format of Prometheus, for the
// autoscalers of the control plane.
//
// A pod is asked when an autoscaler asks, at the path in its annotation prometheus.io/path (/metrics without it) and the
// port in prometheus.io/port (its first one). A metric of a pod is the sum of all its series of that name. Pods that do
// not answer are left out, as those that are not ready.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	group = "custom.metrics.k8s.io/v1beta2"
	// caller is the name in the certificate of the API server's aggregation layer.
	caller = "front-proxy-client"
	// podsSocket of component node carries connections to pods: the first line is the address of the pod.
	podsSocket = "link/pods.sock"
	// Patience for one pod, and the most bytes of its answer.
	patience = 3 * time.Second
	most     = 8 << 20
)

type adapter struct {
	pods corelisters.PodLister
	http *http.Client
}

// metricValue is a MetricValue of custom.metrics.k8s.io/v1beta2.
type metricValue struct {
	DescribedObject corev1.ObjectReference `json:"describedObject"`
	Metric          map[string]string      `json:"metric"`
	Timestamp       string                 `json:"timestamp"`
	Value           resource.Quantity      `json:"value"`
}

// dialPod connects to a pod through the real node: the machine itself has no route to it.
func dialPod(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", podsSocket)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, address+"\n"); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// addressOf returns where a pod serves its metrics; empty for one that can't.
func addressOf(pod *corev1.Pod) string {
	port := pod.Annotations["prometheus.io/port"]
	for _, container := range pod.Spec.Containers {
		if port == "" && len(container.Ports) > 0 {
			port = strconv.Itoa(int(container.Ports[0].ContainerPort))
		}
	}
	path := pod.Annotations["prometheus.io/path"]
	if path == "" {
		path = "/metrics"
	}
	if pod.Status.PodIP == "" || port == "" || pod.DeletionTimestamp != nil || !isReady(pod) {
		return ""
	}
	return "http://" + net.JoinHostPort(pod.Status.PodIP, port) + path
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// sumOf adds the values of all series of a metric; it returns false if there is none.
func sumOf(text io.Reader, metric string) (float64, bool, error) {
	total, found := 0.0, false
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ours := strings.CutPrefix(lines.Text(), metric)
		if !ours || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		if rest[0] == '{' { // a brace in the value of a label is inside quotes, and the last one ends the labels
			rest = rest[strings.LastIndexByte(rest, '}')+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, false, fmt.Errorf("%s: %w", metric, err)
		}
		total, found = total+value, true
	}
	return total, found, lines.Err()
}

func (a *adapter) read(ctx context.Context, pod *corev1.Pod, metric string) (metricValue, error) {
	address := addressOf(pod)
	if address == "" {
		return metricValue{}, errors.New("it is not ready, or has no port")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return metricValue{}, err
	}
	answer, err := a.http.Do(request)
	if err != nil {
		return metricValue{}, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return metricValue{}, fmt.Errorf("status %d", answer.StatusCode)
	}
	value, found, err := sumOf(io.LimitReader(answer.Body, most), metric)
	if err != nil {
		return metricValue{}, err
	}
	if !found {
		return metricValue{}, fmt.Errorf("it has no metric %s", metric)
	}
	return metricValue{
		DescribedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Metric:          map[string]string{"name": metric},
		Timestamp:       time.Now().UTC().Format(time.RFC3339),
		Value:           *resource.NewMilliQuantity(int64(value*1000), resource.DecimalSI),
	}, nil
}

// readAll asks all pods at a time and returns the values of those that answer.
func (a *adapter) readAll(ctx context.Context, pods []*corev1.Pod, metric string) []metricValue {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	values := []metricValue{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, pod := range pods {
		asking.Go(func() {
			value, err := a.read(ctx, pod, metric)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Fprintf(os.Stderr, "pod-metrics: pod %s/%s: %v\n", pod.Namespace, pod.Name, err)
				return
			}
			values = append(values, value)
		})
	}
	asking.Wait()
	return values
}

func (a *adapter) metricsOfPods(answer http.ResponseWriter, request *http.Request) {
	namespace, name, metric := request.PathValue("namespace"), request.PathValue("name"), request.PathValue("metric")
	selector, err := labels.Parse(request.URL.Query().Get("labelSelector"))
	if err != nil {
		refuse(answer, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	found, err := a.pods.Pods(namespace).List(selector)
	if err != nil {
		refuse(answer, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	wanted := found[:0:0]
	for _, pod := range found {
		if name == "*" || name == pod.Name {
			wanted = append(wanted, pod)
		}
	}
	values := a.readAll(request.Context(), wanted, metric)
	if len(values) == 0 {
		refuse(answer, http.StatusNotFound, "NotFound", fmt.Sprintf("no pod in namespace %s serves metric %s", namespace, metric))
		return
	}
	write(answer, http.StatusOK, map[string]any{"kind": "MetricValueList", "apiVersion": group, "metadata": map[string]any{}, "items": values})
}

func (a *adapter) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/"+group, func(answer http.ResponseWriter, _ *http.Request) {
		write(answer, http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group,
			"resources": []map[string]any{{"name": "pods/*", "singularName": "", "namespaced": true, "kind": "MetricValueList",
				"verbs": []string{"get"}}}})
	})
	mux.HandleFunc("GET /apis/"+group+"/namespaces/{namespace}/pods/{name}/{metric}", a.metricsOfPods)
	return mux
}

func write(answer http.ResponseWriter, status int, content any) {
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(status)
	if err := json.NewEncoder(answer).Encode(content); err != nil {
		fmt.Fprintln(os.Stderr, "pod-metrics:", err)
	}
}

// refuse answers as the API server does.
func refuse(answer http.ResponseWriter, status int, reason, message string) {
	write(answer, status, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reason, "code": status})
}

// tlsOf accepts the aggregation layer of the API server and nobody else.
func tlsOf(certificate, key, authority string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", authority)
	}
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != caller {
				return fmt.Errorf("%q may not ask", name)
			}
			return nil
		}}, nil
}

func run(ctx context.Context, kubeconfig, listen, health, node string, secure *tls.Config) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// The path of a socket may have 107 bytes: from here it has few.
	if err := os.Chdir(node); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	synced := pods.Informer().HasSynced
	a := &adapter{pods: pods.Lister(), http: &http.Client{Transport: &http.Transport{DialContext: dialPod, DisableKeepAlives: true}}}
	factory.Start(ctx.Done())
	failed := make(chan error, 2)
	alive := &http.Server{Addr: health, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if !synced() {
			answer.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	server := &http.Server{Addr: listen, ReadHeaderTimeout: patience, TLSConfig: secure, Handler: a.handler()}
	go func() { failed <- alive.ListenAndServe() }()
	go func() { failed <- server.ListenAndServeTLS("", "") }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	server.Close()
	alive.Close()
	return err
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	listen := flag.String("listen", "127.0.0.1:0", "address for the API server")
	health := flag.String("health", "127.0.0.1:0", "address that answers when the pods are known")
	certificate := flag.String("certificate", "", "file of the certificate of the server")
	key := flag.String("key", "", "file of its key")
	authority := flag.String("caller-authority", "", "file of the authority of the API server's aggregation layer")
	node := flag.String("node", "", "folder of the data of the real node")
	flag.Parse()
	secure, err := tlsOf(*certificate, *key, *authority)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = run(ctx, *kubeconfig, *listen, *health, *node, secure)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pod-metrics:", err)
		os.Exit(1)
	}
}
