package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pause is the image that holds the namespaces of a pod. Nothing could be pulled, so it is among those that are imported.
const pause = "localhost/seatrial/pause:1"

// snapshotterFor returns what containerd makes the file systems of containers with.
func snapshotterFor(folder string) (string, error) {
	var state unix.Statfs_t
	if err := unix.Statfs(folder, &state); err != nil {
		return "", err
	}
	// In a container the data may lie on an overlay, which can't be the upper layer of another.
	if state.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// writeConfigurations writes the configurations of containerd, CNI and kubelet.
func writeConfigurations(s settings, snapshotter string) error {
	kubelet, err := json.Marshal(kubeletConfiguration(s))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"containerd.toml":          containerdConfiguration(snapshotter),
		"cni/10-seatrial.conflist": networkConfiguration(),
		"resolv.conf":              "nameserver 127.0.0.1\n",
		"kubelet.json":             string(kubelet),
	} {
		path := filepath.Join(home, "state", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func containerdConfiguration(snapshotter string) string {
	return fmt.Sprintf(`version = 3
root = '%[1]s/containerd'
state = '/run/containerd'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.internal.v1.opt', 'io.containerd.internal.v1.tracing']
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '%[2]s'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '%[3]s'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = '%[4]s/runc'
  SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['%[4]s']
  conf_dir = '%[1]s/state/cni'
  use_internal_loopback = true
[plugins.'io.containerd.transfer.v1.local']
  [[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
    platform = 'linux'
    snapshotter = '%[2]s'
`, home, snapshotter, pause, binFolder)
}

func networkConfiguration() string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "seatrial", "plugins": [
 {"type": "bridge", "bridge": "pods", "isGateway": true, "isDefaultGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "%s"}]]}}]}
`, podRange)
}

// kubeletConfiguration is a KubeletConfiguration of kubelet.config.k8s.io/v1beta1.
func kubeletConfiguration(s settings) map[string]any {
	found := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"address":                  nodeAddress,
		"port":                     s.port,
		"readOnlyPort":             0,
		"healthzPort":              0,
		"tlsCertFile":              pkiFolder + "/serving.crt",
		"tlsPrivateKeyFile":        pkiFolder + "/serving.key",
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}, "x509": map[string]any{"clientCAFile": pkiFolder + "/ca.crt"}},
		"authorization":            map[string]any{"mode": "Webhook"},
		"clusterDNS":               []string{namesAddress},
		"clusterDomain":            "cluster.local",
		"resolvConf":               home + "/state/resolv.conf",
		"cgroupDriver":             "cgroupfs",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"oomScoreAdj":              0,
		"protectKernelDefaults":    true,
		"makeIPTablesUtilChains":   false,
		"containerRuntimeEndpoint": "unix://" + socket,
		// It would otherwise be created in /usr.
		"volumePluginDir":          home + "/kubelet/plugins",
		"nodeLeaseDurationSeconds": 120,
		// Nothing can be pulled again.
		"imageGCHighThresholdPercent": 100,
		"imageMinimumGCAge":           "87600h",
		"evictionHard":                map[string]string{"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},
		"systemReserved":              map[string]string{"memory": "1Gi"},
		"kubeAPIQPS":                  50,
	}
	if s.limits {
		found["cgroupRoot"] = "/" + s.group
		found["enforceNodeAllocatable"] = []string{"pods"}
	} else {
		found["cgroupsPerQOS"] = false
		found["enforceNodeAllocatable"] = []string{}
		found["featureGates"] = map[string]bool{"KubeletInUserNamespace": true}
	}
	return found
}

func kubeletArguments(s settings) []string {
	return []string{
		"--config=" + home + "/state/kubelet.json",
		"--kubeconfig=" + pkiFolder + "/kubeconfig",
		"--root-dir=" + home + "/kubelet",
		"--cert-dir=" + home + "/kubelet/pki",
		"--hostname-override=" + s.name,
		"--node-ip=" + nodeAddress,
		// With it, kubelet keeps the address that the Node has.
		"--cloud-provider=external",
	}
}
