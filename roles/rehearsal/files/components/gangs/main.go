// Plays the start of a gang: pods that KWOK plays know nothing of each other, but the pods of a distributed training wait
// until all of them run, and hold their nodes meanwhile.
//
// A pod takes part that carries the label perfscale.seatrial/gang with the number of pods, and the annotation
// perfscale.seatrial/gang-state "waiting". Its gang are the pods of its job (label batch.kubernetes.io/job-name). When so
// many of them run, or have succeeded, as the label says, the annotation of those that wait becomes "whole"; KWOK's stages
// in stages.yml do the rest.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

const (
	size    = "perfscale.seatrial/gang"
	state   = "perfscale.seatrial/gang-state"
	job     = "batch.kubernetes.io/job-name"
	byGang  = "gang"
	workers = 8
)

var whole = []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:"whole"}}}`, state))

type player struct {
	client kubernetes.Interface
	pods   cache.Indexer
	queue  workqueue.TypedRateLimitingInterface[string]
}

// gangOf names the gang of a pod; empty when it has none.
func gangOf(pod *corev1.Pod) string {
	if pod.Labels[size] == "" || pod.Labels[job] == "" {
		return ""
	}
	return pod.Namespace + "/" + pod.Labels[job]
}

func (p *player) saw(thing any) {
	if pod, ok := thing.(*corev1.Pod); ok && gangOf(pod) != "" {
		p.queue.Add(gangOf(pod))
	}
}

// look tells the pods of a gang that wait that it is whole, if it is.
func (p *player) look(ctx context.Context, gang string) error {
	found, err := p.pods.ByIndex(byGang, gang)
	if err != nil {
		return err
	}
	there, wanted := 0, 0
	waiting := []*corev1.Pod{}
	for _, thing := range found {
		pod := thing.(*corev1.Pod)
		wanted, _ = strconv.Atoi(pod.Labels[size])
		if pod.DeletionTimestamp != nil {
			continue
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			there++
			if pod.Annotations[state] == "waiting" {
				waiting = append(waiting, pod)
			}
		case corev1.PodSucceeded:
			there++
		}
	}
	if there < wanted {
		return nil
	}
	for _, pod := range waiting {
		_, err := p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, whole, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (p *player) work(ctx context.Context) {
	for {
		gang, over := p.queue.Get()
		if over {
			return
		}
		if err := p.look(ctx, gang); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "gangs:", gang, err)
			p.queue.AddRateLimited(gang)
		} else {
			p.queue.Forget(gang)
		}
		p.queue.Done(gang)
	}
}

func run(ctx context.Context, kubeconfig, health string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 2000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = size }))
	informer := factory.Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{byGang: func(thing any) ([]string, error) {
		return []string{gangOf(thing.(*corev1.Pod))}, nil
	}}); err != nil {
		return err
	}
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	p := &player{client: client, pods: informer.GetIndexer(), queue: workqueue.NewTypedRateLimitingQueue(limiter)}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.saw, UpdateFunc: func(_, now any) { p.saw(now) },
	}); err != nil {
		return err
	}
	var ready atomic.Bool
	server := &http.Server{Addr: health, Handler: http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			answer.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	ready.Store(true)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() { p.work(ctx) })
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	p.queue.ShutDown()
	working.Wait()
	return err
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	health := flag.String("health", "127.0.0.1:0", "address that answers when the player is ready")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *health); err != nil {
		fmt.Fprintln(os.Stderr, "gangs:", err)
		os.Exit(1)
	}
}
