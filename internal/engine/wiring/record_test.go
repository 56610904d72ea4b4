package wiring

import (
	"testing"

	"pgregory.net/rapid"
)

func FuzzDecode(f *testing.F) {
	f.Add(`{"entries":[{"owner":"a","value":"b","detail":"c"}],"created":"x"}`)
	f.Add(`{"entries":[{"owner":1}]}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Decode(text)
		if err != nil {
			if !r.Empty() {
				t.Fatalf("an error and a record: %+v, %v", r, err)
			}
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > maxRecord {
			return
		}
		back, err := Decode(again)
		if err != nil || !back.Equal(r) {
			t.Fatalf("%q reads as %+v, written as %q, reads as %+v (%v)", text, r, again, back, err)
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{Created: rapid.StringMatching(`[a-f0-9]{0,8}`).Draw(t, "created")}
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			r.Entries = append(r.Entries, Entry{
				Owner: rapid.StringN(1, 20, -1).Draw(t, "owner"), Value: rapid.StringN(1, 20, -1).Draw(t, "value"),
				Detail: rapid.String().Draw(t, "detail"),
			})
		}
		text, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(text)
		if err != nil || !back.Equal(r) {
			t.Fatalf("%+v comes back as %+v (%v)", r, back, err)
		}
	})
}
