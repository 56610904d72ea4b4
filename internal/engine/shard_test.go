package engine

import "testing"

func TestAManagerEndsWhatIsInItsNamespacesOnly(t *testing.T) {
	for _, c := range []struct {
		only      []string
		namespace string
		want      bool
	}{
		{nil, "a", true},
		{[]string{"a", "b"}, "b", true},
		{[]string{"a", "b"}, "c", false},
		{[]string{"a"}, "", true},
	} {
		s := newShard(&Engine{Options: Options{Namespaces: c.only}})
		if got := s.mayFinalize(c.namespace); got != c.want {
			t.Errorf("of %v, in %q: %v", c.only, c.namespace, got)
		}
	}
}
