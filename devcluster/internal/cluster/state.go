package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"mlkeeper.dev/devcluster/internal/component"
)

// Phases of a cluster.
const (
	PhaseStarting = "starting"
	PhaseHealthy  = "healthy"
	PhaseFailed   = "failed"
	PhaseStopping = "stopping"
	PhaseStopped  = "stopped"
)

// States of a component.
const (
	StateRunning = "running"
	// StateStopped means that somebody asked for it.
	StateStopped = "stopped"
	// StateExited means that the process ended by itself.
	StateExited = "exited"
)

// State is the content of state.json, the contract with scripts and tests.
type State struct {
	Dir               string            `json:"dir"`
	Phase             string            `json:"phase"`
	PID               int               `json:"pid"`
	Server            string            `json:"server"`
	Kubeconfig        string            `json:"kubeconfig"`
	Socket            string            `json:"socket"`
	KubernetesVersion string            `json:"kubernetesVersion"`
	StartedAt         time.Time         `json:"startedAt"`
	BootSeconds       float64           `json:"bootSeconds,omitempty"`
	Error             string            `json:"error,omitempty"`
	Components        []ComponentStatus `json:"components"`
	Spec              component.Spec    `json:"spec"`
}

// ComponentStatus is one component in state.json and in the answer of status.
type ComponentStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	PID   int    `json:"pid,omitempty"`
	Port  int    `json:"port"`
	Log   string `json:"log"`
	// Healthy is asked afresh by status; the file does not carry it.
	Healthy bool `json:"healthy,omitempty"`
	// Exit says how a component that is not running ended.
	Exit string `json:"exit,omitempty"`
}

// StateFile is where a cluster records its state.
func StateFile(dir string) string { return filepath.Join(dir, "state.json") }

// ReadState reads the state of the cluster in dir. The error of a directory
// without a cluster says how to get one.
func ReadState(dir string) (State, error) {
	var st State
	data, err := os.ReadFile(StateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return st, fmt.Errorf("there is no devcluster in %s; boot one with `devcluster up --dir %s`: %w", dir, dir, fs.ErrNotExist)
	}
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(data, &st); err != nil {
		return st, fmt.Errorf("%s is damaged (%w); remove the cluster with `devcluster down --dir %s`", StateFile(dir), err, dir)
	}
	return st, nil
}

// writeState replaces state.json in one step, so that no reader sees half of it.
func writeState(st State) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	temp := StateFile(st.Dir) + ".new"
	if err := os.WriteFile(temp, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, StateFile(st.Dir))
}
