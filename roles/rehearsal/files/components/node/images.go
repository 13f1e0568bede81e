package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// imageFolder is where the node finds the folder of an image in the cache: its archive, its file tree, and a description.
func imageFolder(number int) string { return fmt.Sprintf("%s/%d", imageFiles, number) }

// snapshotMark is the file with the path of the snapshot of a layer. It exists when the image is imported.
func snapshotMark(layer string) string {
	return filepath.Join(home, "state", "snapshot-"+strings.TrimPrefix(layer, "sha256:"))
}

// layerOf returns the digest of the only layer of an image, which image.json has.
func layerOf(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "image.json"))
	if err != nil {
		return "", err
	}
	var entry struct {
		Layer string `json:"layer"`
	}
	if err := json.Unmarshal(text, &entry); err != nil {
		return "", fmt.Errorf("%s/image.json: %w", folder, err)
	}
	if !strings.HasPrefix(entry.Layer, "sha256:") {
		return "", fmt.Errorf("%s/image.json has no layer", folder)
	}
	return entry.Layer, nil
}

// showTrees mounts the file trees of imported images where containerd has their snapshots. Before it starts: the mounts of an
// earlier node are gone.
func showTrees(s settings) error {
	for number := range s.images {
		layer, err := layerOf(imageFolder(number))
		if err != nil {
			return err
		}
		snapshot, err := os.ReadFile(snapshotMark(layer))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := showTree(number, string(snapshot)); err != nil {
			return err
		}
	}
	return nil
}

// showTree mounts the file tree of an image, read-only: instances share those of the cache, and none copies them.
func showTree(number int, snapshot string) error {
	tree := filepath.Join(imageFolder(number), "tree")
	if err := unix.Mount(tree, snapshot, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s on %s: %w", tree, snapshot, err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, snapshot, 0, &readOnly); err != nil {
		return fmt.Errorf("making %s read-only: %w", snapshot, err)
	}
	return nil
}

// importer calls ctr.
type importer struct {
	reaped *reaper
	output *os.File
}

func (i importer) run(output *os.File, arguments ...string) error {
	command := append([]string{filepath.Join(binFolder, "ctr"), "-a", socket, "-n", "k8s.io"}, arguments...)
	done, err := i.reaped.start(output, command)
	if err != nil {
		return err
	}
	if status := <-done; status.ExitStatus() != 0 {
		return fmt.Errorf("%s: %s; see node-images.log", strings.Join(arguments, " "), describe(status))
	}
	return nil
}

// importImages imports the images that containerd does not have. Their archives have no layers: the snapshots are made of the
// file trees, which takes no time, and an import finds them.
func importImages(s settings, reaped *reaper, snapshotter string) error {
	output, err := os.OpenFile(filepath.Join(logFolder, "node-images.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	ctr := importer{reaped, output}
	for number, image := range s.images {
		layer, err := layerOf(imageFolder(number))
		if err != nil {
			return err
		}
		mark := snapshotMark(layer)
		if _, err := os.Stat(mark); err == nil {
			continue
		}
		began := time.Now()
		snapshot, err := ctr.snapshot(number, layer, snapshotter)
		if err != nil {
			return err
		}
		archive := filepath.Join(imageFolder(number), "image.tar")
		if err := ctr.run(output, "images", "import", "--local", "--discard-unpacked-layers", "--snapshotter", snapshotter, archive); err != nil {
			return err
		}
		log.Printf("imported %s in %.1f s", image, time.Since(began).Seconds())
		if err := os.WriteFile(mark+".new", []byte(snapshot), 0o600); err != nil {
			return err
		}
		if err := os.Rename(mark+".new", mark); err != nil {
			return err
		}
	}
	return nil
}

// snapshot makes the snapshot of a layer out of the file tree; it returns its path.
func (i importer) snapshot(number int, layer, snapshotter string) (string, error) {
	active := "tree-" + layer
	// Of a node that was killed here. There is none usually.
	for _, one := range []string{layer, active} {
		_ = i.run(i.output, "snapshots", "--snapshotter", snapshotter, "remove", one)
	}
	answer, err := os.CreateTemp(temporary, "mounts")
	if err != nil {
		return "", err
	}
	defer os.Remove(answer.Name())
	defer answer.Close()
	if err := i.run(answer, "snapshots", "--snapshotter", snapshotter, "prepare", "--mounts", active); err != nil {
		return "", err
	}
	text, err := os.ReadFile(answer.Name())
	if err != nil {
		return "", err
	}
	path, err := sourceOf(text)
	if err != nil {
		return "", err
	}
	if err := showTree(number, path); err != nil {
		return "", err
	}
	return path, i.run(i.output, "snapshots", "--snapshotter", snapshotter, "commit", layer, active)
}

// sourceOf returns the folder of a snapshot without a parent, of which a container would get a bind mount.
func sourceOf(mounts []byte) (string, error) {
	var found []struct{ Type, Source string }
	// ctr prints warnings before its answer.
	start := max(strings.Index(string(mounts), "[\n"), 0)
	if err := json.NewDecoder(bytes.NewReader(mounts[start:])).Decode(&found); err != nil {
		return "", fmt.Errorf("mounts of a snapshot: %w: %s", err, mounts)
	}
	if len(found) != 1 || found[0].Type != "bind" || !filepath.IsAbs(found[0].Source) {
		return "", fmt.Errorf("a new snapshot has the mounts %s", mounts)
	}
	return found[0].Source, nil
}
