package faults

import (
	"flag"
	"testing"
	"time"
)

var soakFlags struct {
	duration, pause  time.Duration
	folder, operator string
}

func init() {
	flag.DurationVar(&soakFlags.duration, "faults.soak", 0, "how long TestSoak runs")
	flag.DurationVar(&soakFlags.pause, "faults.pause", 2*time.Second, "mean pause between two actions of one user of a soak")
	flag.StringVar(&soakFlags.folder, "faults.soak.folder", "", "folder of the report of a soak")
	flag.StringVar(&soakFlags.operator, "faults.operator", "", "kubeconfig of the cluster in which this process is the operator of a soak")
}

// TestSoak runs for as long as it is told to.
func TestSoak(t *testing.T) {
	if soakFlags.duration == 0 {
		return // make soak runs it.
	}
	s := newSuite(t)
	report, err := s.Soak(t.Context(), SoakConfig{
		Duration: soakFlags.duration, Pause: soakFlags.pause, Folder: soakFlags.folder, Restart: func() {
			s.cluster.KillComponent(t, "kube-apiserver")
			s.cluster.StartComponent(t, "kube-apiserver")
		},
	})
	t.Log("\n" + report)
	if err != nil {
		t.Error(err)
	}
}

// TestSoakOperator is the operator of a soak, in a process that the soak starts.
func TestSoakOperator(t *testing.T) {
	if soakFlags.operator == "" {
		return // This process is no operator.
	}
	if err := ServeOperator(soakFlags.operator, flags.seed, kinds()); err != nil {
		t.Fatal(err)
	}
}
