package source

import (
	"context"
	"errors"
	"time"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// kindIndex is the kind of the workers that read the indexes of chart repositories: a few megabytes of YAML take gigabytes once they are
// decoded, where somebody wants them to.
const kindIndex = "chart index"

// maxIndexTime is how much processor time that may take. The largest public index takes two seconds.
const maxIndexTime = 20 * time.Second

// chartJob is a chart to find in an index.
type chartJob struct {
	Raw           []byte
	Name, Version string
}

// chartFound is where the chart is, or why it is not found.
type chartFound struct {
	Link, Digest string
	Failure      Error
}

const methodFound = "found"

func init() { worker.Serve(kindIndex, findInWorker) }

func findInWorker(parent *worker.Parent) error {
	var j chartJob
	if err := parent.Read(&j); err != nil {
		return err
	}
	var out chartFound
	var failure *Error
	link, digest, err := listed(j.Raw, ChartRequest{Name: j.Name, Version: j.Version})
	if errors.As(err, &failure) {
		out.Failure = *failure
	} else {
		out.Link, out.Digest = link, digest
	}
	_, err = worker.Call[bool](parent, methodFound, out)
	return err
}

// find finds a chart in the index of a repository.
func (s *Store) find(ctx context.Context, raw []byte, r ChartRequest) (link, digest string, err error) {
	var found chartFound
	err = s.options.Workers.Run(ctx, worker.Job{
		Kind: kindIndex, Namespace: limit.NamespaceOf(ctx), Input: chartJob{Raw: raw, Name: r.Name, Version: r.Version},
		StepTime: maxIndexTime, TotalTime: maxIndexTime,
		Handlers: map[string]worker.Handler{methodFound: worker.Handle(func(_ *worker.Run, f chartFound) (bool, error) {
			found = f
			return true, nil
		})},
	})
	switch {
	case errors.Is(err, worker.ErrUnavailable):
		return "", "", transient(ReasonStoreFailed, "", "the repository's index.yaml could not be read now")
	case err != nil:
		return "", "", tooLarge("the repository's index.yaml cannot be read: it takes too much memory or time")
	case found.Failure.Reason != "":
		return "", "", &found.Failure
	}
	return found.Link, found.Digest, nil
}
