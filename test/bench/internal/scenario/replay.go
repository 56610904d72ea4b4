package scenario

import (
	"context"
	"encoding/json"
	"regexp"
	"sync"

	"mlkeeper.dev/test/bench/internal/world"
)

// replay sends what was captured of one custom resource for another one. A status names the version that it follows from, so that the answers
// tell what the next one has to name.
type replay struct {
	wire *world.Wire
	// mu is held while writes are sent that follow one another.
	mu sync.Mutex
	// uid and version are those of the custom resource; the first write makes it where the uid is empty.
	uid, version string
}

// inPrecondition finds the resourceVersion that a status names.
var inPrecondition = regexp.MustCompile(`"resourceVersion":"[0-9]+"`)

// send sends one write, and returns the answer.
func (r *replay) send(ctx context.Context, write world.Request) (answer world.Followed, err error) {
	raw, err := r.wire.Do(ctx, write.Method, write.URI, write.ContentType, r.onto(write.Body))
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, err
	}
	r.took(answer)
	return answer, nil
}

// onto is a body with the version that its custom resource has now.
func (r *replay) onto(body []byte) []byte {
	if r.version == "" {
		return body
	}
	return inPrecondition.ReplaceAll(body, []byte(`"resourceVersion":"`+r.version+`"`))
}

// took takes in an answer, which may be about a child.
func (r *replay) took(answer world.Followed) {
	if r.uid == "" {
		r.uid = answer.Metadata.UID
	}
	if answer.Metadata.UID == r.uid {
		r.version = answer.Metadata.ResourceVersion
	}
}
