package watch

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"
)

// TestWhatIsCachedOtherwiseIsToldWithoutANewVersion: a list after a broken watch reads a custom resource again, for which there is room now.
func TestWhatIsCachedOtherwiseIsToldWithoutANewVersion(t *testing.T) {
	told := 0
	convert := func(o any) (metav1.Object, metav1.Object) {
		m, _ := o.(metav1.Object)
		return m, m
	}
	events := handler(convert, func(_, _ metav1.Object) { told++ })((&Manager{clock: testclock.NewFakeClock(time.Unix(1e9, 0))}).newInformer(informer{}))
	read := &unstructured.Unstructured{Object: map[string]any{}}
	read.SetName("a")
	read.SetResourceVersion("1")
	bad := &Undecodable{Unstructured: read}
	for i, update := range [][2]metav1.Object{{bad, bad}, {read, read}, {bad, read}, {read, bad}} {
		before := told
		events.OnUpdate(update[0], update[1])
		if want := before; i >= 2 && told != want+1 || i < 2 && told != want {
			t.Errorf("%d: told %d times", i, told-before)
		}
	}
}
