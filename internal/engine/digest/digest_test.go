package digest

import "testing"

func TestSecrets(t *testing.T) {
	data := func(pairs ...string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	key := Key{1}
	base := key.Secrets(data("user", "u", "password", "p"), data())
	if got := key.Secrets(data("password", "p", "user", "u"), data()); got != base {
		t.Errorf("the same content has the digests %s and %s", base, got)
	}
	seen := map[string]int{base: -1}
	for i, other := range []string{
		Key{2}.Secrets(data("user", "u", "password", "p"), data()),
		key.Secrets(data("user", "u", "password", "q"), data()),
		key.Secrets(data("user", "u"), data("password", "p")),
		key.Secrets(data(), data("user", "u", "password", "p")),
		key.Secrets(data("user", "up", "password", ""), data()),
		key.Secrets(data("user", "u", "password", "p")),
		key.Secrets(),
		key.For("uid").Secrets(data("user", "u", "password", "p"), data()),
		key.For("another").Secrets(data("user", "u", "password", "p"), data()),
		Key{2}.For("uid").Secrets(data("user", "u", "password", "p"), data()),
	} {
		if before, same := seen[other]; same {
			t.Errorf("cases %d and %d have the same digest", before, i)
		}
		seen[other] = i
	}
}

func TestSealer(t *testing.T) {
	s := Key{1}.Sealer("uid")
	stored := s.Seal("abc")
	if stored == "abc" || s.Seal("abc") != stored || s.Seal(stored) != stored || s.Seal("") != "" || s.Seal("abd") == stored {
		t.Errorf("sealed is %q, then %q, and again %q", stored, s.Seal("abc"), s.Seal(stored))
	}
	if !s.Is(stored, "abc") || !s.Is("abc", "abc") || s.Is(stored, "abd") || s.Is("", "") || s.Is(stored, "") || s.Is(stored, stored) {
		t.Error("what was stored is not recognized, or something else is")
	}
	for name, other := range map[string]Sealer{"another key": Key{2}.Sealer("uid"), "another subject": Key{1}.Sealer("other")} {
		if other.Seal("abc") == stored || other.Is(stored, "abc") {
			t.Errorf("%s gives the same", name)
		}
		if got := other.Foreign(stored); got != (name == "another key") {
			t.Errorf("%s: what another key sealed is foreign: %t", name, got)
		}
	}
	if s.Foreign(stored) || s.Foreign("abc") || s.Foreign("") {
		t.Error("what this key sealed is foreign, or what none did")
	}
}
