package source

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// line is a packet of git's protocol.
func line(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// manyRefs is a list of refs that has one that is called wanted among many, tags of tags and shallow commits.
func manyRefs(n int) string {
	hash := strings.Repeat("1", 40)
	var out strings.Builder
	out.WriteString(line(hash + " HEAD\x00ofs-delta shallow\n"))
	for i := range n {
		out.WriteString(line(fmt.Sprintf("%s refs/pull/%d/head\n", hash, i)) + line(fmt.Sprintf("%s refs/tags/v%d^{}\n", hash, i)))
	}
	out.WriteString(line(strings.Repeat("2", 40) + " refs/tags/wanted\n"))
	out.WriteString(line(strings.Repeat("3", 40) + " refs/heads/wanted\n"))
	out.WriteString(strings.Repeat(line("shallow "+hash), n) + "0000")
	return out.String()
}

// answering is a server over SSH that answers a text, whatever it is asked.
func answering(ref, text string) *sshServer {
	return &sshServer{out: strings.NewReader(text), in: discarding{}, refs: refNames(ref), most: 1 << 20}
}

type discarding struct{}

func (discarding) Write(p []byte) (int, error) { return len(p), nil }
func (discarding) Close() error                { return nil }

// TestRefsThatNobodyLooksForAreNotKept: each one takes several times as much memory as the server sends.
func TestRefsThatNobodyLooksForAreNotKept(t *testing.T) {
	for name, decode := range map[string]func(string) (*packp.AdvRefs, error){
		"over SSH": func(text string) (*packp.AdvRefs, error) {
			return answering("wanted", text).AdvertisedReferencesContext(t.Context())
		},
		"over HTTP": func(text string) (*packp.AdvRefs, error) {
			refs := packp.NewAdvRefs()
			answer := io.NopCloser(strings.NewReader(line("# service=git-upload-pack\n") + "0000" + text))
			return refs, refs.Decode((&gate{refs: refNames("wanted")}).bound("GET", &pacedBody{ReadCloser: answer, patience: time.Minute}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			refs, err := decode(manyRefs(10_000))
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(refs.References)); !slices.Equal(got, []string{"refs/heads/wanted", "refs/tags/wanted"}) {
				t.Errorf("%d refs are kept: %.100q", len(got), got)
			}
			if refs.Head == nil || len(refs.Peeled)+len(refs.Shallows) > 0 || refs.Capabilities.IsEmpty() {
				t.Errorf("HEAD is %v, %d tags of tags and %d shallow commits are kept, the capabilities are %s",
					refs.Head, len(refs.Peeled), len(refs.Shallows), refs.Capabilities)
			}
		})
	}
}

// TestGitServersOverSSHAreBounded has one that lists refs for ever, and one that acknowledges for ever.
func TestGitServersOverSSHAreBounded(t *testing.T) {
	_, err := answering("x", manyRefs(100_000)).AdvertisedReferencesContext(t.Context())
	var told *Error
	if !errors.As(err, &told) || told.Reason != ReasonTooLarge || !strings.Contains(told.Remedy, "archive") {
		t.Errorf("an endless list of refs: %v", err)
	}
	r := packp.NewUploadPackRequest()
	r.Wants = []plumbing.Hash{plumbing.NewHash(strings.Repeat("1", 40))}
	_, err = answering("x", strings.Repeat(line("ACK "+strings.Repeat("1", 40)+"\n"), 5000)).UploadPack(t.Context(), r)
	if !errors.As(err, &told) || told.Reason != ReasonRejected {
		t.Errorf("endless acknowledgements: %v", err)
	}
	// What belongs to the pack has another bound.
	res, err := answering("x", "0008NAK\n"+strings.Repeat("x", 2*maxPreamble)).UploadPack(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, res); err != nil || n != 2*maxPreamble {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestWhatIsNoListOfRefsIsHandedOn, so that go-git refuses it.
func TestWhatIsNoListOfRefsIsHandedOn(t *testing.T) {
	for _, text := range []string{"<html>", "0003", "0004", "ffff", "000", "0009ERR x"} {
		if err := packp.NewAdvRefs().Decode(&refList{in: strings.NewReader(text)}); err == nil {
			t.Errorf("%q passes for a list of refs", text)
		}
	}
}
