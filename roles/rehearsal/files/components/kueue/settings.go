package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Where an installation of Kueue keeps its settings.
var place = types.NamespacedName{Namespace: "kueue-system", Name: "kueue-manager-config"}

const (
	key = "controller_manager_config.yaml"
	// Set when the settings are in force: the SHA-256 of their text.
	inForce = "perfscale.seatrial/in-force"
	look    = 500 * time.Millisecond
)

// What a ConfigMap may change. The rest is where this process listens and what it is allowed to.
var changeable = []string{
	"fairSharing", "admissionFairSharing", "waitForPodsReady", "manageJobsWithoutQueueName", "featureGates", "resources",
	"objectRetentionPolicies", "multiKueue",
}

// settings are the text of the ConfigMap; empty when there is none.
type settings struct{ text string }

func (s settings) digest() string {
	sum := sha256.Sum256([]byte(s.text))
	return hex.EncodeToString(sum[:])
}

func readConfigMap(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (settings, error) {
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return settings{}, err
	}
	var found corev1.ConfigMap
	if err := reader.Get(ctx, place, &found); err != nil {
		return settings{}, client.IgnoreNotFound(err)
	}
	return settings{found.Data[key]}, nil
}

// merge writes the configuration in the file base, with what text changes of it, to the file merged.
func merge(base, text, merged string) error {
	raw, err := os.ReadFile(base)
	if err != nil {
		return err
	}
	var whole, given map[string]any
	if err := yaml.Unmarshal(raw, &whole); err != nil {
		return fmt.Errorf("%s: %w", base, err)
	}
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		return fmt.Errorf("ConfigMap %s: %w", place, err)
	}
	for _, name := range changeable {
		if value, ok := given[name]; ok {
			whole[name] = value
		}
	}
	// What this process can't do stays off. MultiKueue watches further kinds, so it is on only for a manager cluster.
	gates, _ := whole["featureGates"].(map[string]any)
	if gates == nil {
		gates = map[string]any{}
	}
	gates["VisibilityOnDemand"], gates["MultiKueue"] = false, whole["multiKueue"] != nil
	whole["featureGates"] = gates
	raw, err = yaml.Marshal(whole)
	if err != nil {
		return err
	}
	return os.WriteFile(merged, raw, 0o600)
}

// follower says when the settings are in force, and starts the process anew when they change.
type follower struct {
	given   settings
	rest    *rest.Config
	scheme  *runtime.Scheme
	manager ctrl.Manager
}

func (f *follower) Start(ctx context.Context) error {
	if !f.manager.GetCache().WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	told := false
	for {
		now, err := readConfigMap(ctx, f.rest, f.scheme)
		switch {
		case err != nil:
			ctrl.Log.Error(err, "the settings can't be read", "ConfigMap", place)
		case now != f.given:
			return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
		case !told && now.text != "":
			told = f.tell(ctx) == nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(look):
		}
	}
}

func (f *follower) tell(ctx context.Context) error {
	writer, err := client.New(f.rest, client.Options{Scheme: f.scheme})
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, inForce, f.given.digest())
	object := &corev1.ConfigMap{}
	object.Name, object.Namespace = place.Name, place.Namespace
	err = writer.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
