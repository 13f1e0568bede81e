package main

import (
	"context"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// realKey marks the node, as label and as taint: loads for simulated nodes must not land on it.
const realKey = "perfscale.seatrial/real"

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// registerNode makes the Node before kubelet does. Kubelet refuses a loopback address, but keeps one that is there, and the
// API server can reach no other; it also keeps the taint.
func registerNode(ctx context.Context, client kubernetes.Interface, name string) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{"kubernetes.io/hostname": name, "node-role.kubernetes.io/worker": "", realKey: "true"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: realKey, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: name},
		}},
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// awaitReady returns when pods can be scheduled on the node.
func awaitReady(ctx context.Context, client kubernetes.Interface, name string) {
	began := time.Now()
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && schedulable(node, began) {
			log.Printf("%s is Ready", name)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// schedulable returns whether kubelet has said since then that the node is Ready, and the node controller has agreed. The
// condition of a node that was killed stays Ready for minutes.
func schedulable(node *corev1.Node, since time.Time) bool {
	for _, one := range node.Spec.Taints {
		if one.Key == corev1.TaintNodeNotReady || one.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, one := range node.Status.Conditions {
		if one.Type == corev1.NodeReady {
			return one.Status == corev1.ConditionTrue && !one.LastHeartbeatTime.Time.Before(since.Truncate(time.Second))
		}
	}
	return false
}
