package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheFolderOfANewSnapshotIsFoundAmongWarnings(t *testing.T) {
	answer := "time=\"2026\" level=warning msg=\"[old]\"\n[\n    {\n        \"Type\": \"bind\",\n        \"Source\": \"/c/snapshots/7/fs\"\n    }\n]\n"
	if path, err := sourceOf([]byte(answer)); err != nil || path != "/c/snapshots/7/fs" {
		t.Errorf("%q %v", path, err)
	}
	for _, wrong := range []string{"", "[\n]", "[\n{\"Type\": \"overlay\", \"Source\": \"overlay\"}]"} {
		if path, err := sourceOf([]byte(wrong)); err == nil {
			t.Errorf("%q gives %q", wrong, path)
		}
	}
}

func TestALayerIsReadFromTheDescriptionOfAnImage(t *testing.T) {
	folder := t.TempDir()
	if _, err := layerOf(folder); err == nil {
		t.Error("no error without a file")
	}
	write(t, filepath.Join(folder, "image.json"), `{"image": "x", "layer": "sha256:ab"}`)
	if layer, err := layerOf(folder); err != nil || layer != "sha256:ab" {
		t.Errorf("%q %v", layer, err)
	}
	write(t, filepath.Join(folder, "image.json"), `{"image": "x"}`)
	if _, err := layerOf(folder); err == nil || !strings.Contains(err.Error(), "has no layer") {
		t.Errorf("%v", err)
	}
}
