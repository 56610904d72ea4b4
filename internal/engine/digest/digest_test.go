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
