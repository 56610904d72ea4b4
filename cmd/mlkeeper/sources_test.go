package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/source"
)

// TestAFolderThatCannotBeOpenedIsOpenedAgain has a volume that is not there when something is fetched for the first time. What is told names the
// volume, and no new manager is needed once it is there.
func TestAFolderThatCannotBeOpenedIsOpenedAgain(t *testing.T) {
	data, err := manifesttest.Pack(fstest.MapFS{"file": {Data: []byte("text")}})
	if err != nil {
		t.Fatal(err)
	}
	volume := filepath.Join(t.TempDir(), "volume")
	if err := os.WriteFile(volume, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &lazyStore{options: source.Options{Dir: filepath.Join(volume, "sources")}}
	defer l.close()
	unpack := func() error {
		artifact, err := l.Unpack(t.Context(), "archive", data)
		if err == nil {
			artifact.Close()
		}
		return err
	}
	known := new(source.Error)
	if err := unpack(); !errors.As(err, &known) || known.Reason != source.ReasonStoreFailed || known.Class != source.Transient || known.Remedy == "" {
		t.Fatalf("told is %v", err)
	}
	if err := os.Remove(volume); err != nil {
		t.Fatal(err)
	}
	if err := unpack(); err == nil {
		t.Error("it was opened again without a pause")
	}
	l.again = time.Now().Add(-time.Second)
	if err := unpack(); err != nil {
		t.Errorf("the volume is there: %v", err)
	}
}
