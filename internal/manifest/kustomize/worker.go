package kustomize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/worker"
)

// kind is the kind of the workers that render applications.
const kind = "kustomize"

// times are the processor times of the rendering of a KfDef: what each application may take, what all of them may take, and after how much
// the rest of them waits until others had their turn.
type times struct{ one, all, turn time.Duration }

// most are far above what real KfDefs take: all of Kubeflow 1.2 takes two seconds.
var most = times{one: 30 * time.Second, all: 90 * time.Second, turn: 10 * time.Second}

// ErrUnavailable says that nothing was rendered through no fault of the applications.
var ErrUnavailable = worker.ErrUnavailable

func init() { worker.Serve(kind, work) }

// job is what a worker does: it finds out how a KfDef is rendered, or renders its applications from one on.
type job struct {
	// Input is an Input as JSON, but for its repositories, which the worker reads as trees.
	Input []byte
	Repos []string
	From  int
	// Detect says that nothing is to be rendered.
	Detect bool
}

// The methods by which a worker tells what became of an application, or of the detection.
const methodRendered, methodDetected = "rendered", "detected"

// told is a Rendered without its objects, which are sent one by one before it.
type told struct {
	Index    int
	Name     string
	Warnings bounded.Warnings
	Error    string
}

// detected is what Detect found.
type detected struct{ Rendering, Why, Error string }

// Ambiguous says which application only kfctl renders, and which one it never could.
type Ambiguous string

// Error implements error.
func (a Ambiguous) Error() string { return string(a) }

// Detect finds the rendering of a KfDef that does not name it, and why it is that one.
//
// kfctl ended at the first application that it could not render. A KfDef with such an application therefore never worked with it, and
// is rendered as by kustomize; every other one keeps the meaning that it had. Where something else is kfctl's all the same, the error is an
// Ambiguous: either rendering would be a guess, which puts objects into other namespaces where it is wrong. An ErrUnavailable says nothing
// of the KfDef. Any other error ended the detection, a worker.LimitError where it took more than it may.
func Detect(ctx context.Context, in Input) (rendering Rendering, why string, err error) {
	var found *detected
	handlers := map[string]worker.Handler{methodDetected: worker.Handle(func(_ *worker.Run, d detected) (bool, error) {
		found = &d
		return true, nil
	})}
	err = in.run(ctx, job{Detect: true}, handlers, most.one, most.all)
	switch {
	case err != nil:
		return "", "", err
	case found == nil:
		return "", "", errors.New("the process that looks for it found nothing")
	case found.Error != "":
		return "", "", Ambiguous(found.Error)
	}
	return Rendering(found.Rendering), found.Why, nil
}

// Render renders every application, in the order of the KfDef, in processes of their own. A second application of one name gives
// nothing, and its caller says so. The error is ErrUnavailable: what cannot be rendered is an error of its application, a worker.LimitError
// where a bound on time or memory ended it, or the kernel did twice.
func Render(ctx context.Context, in Input) ([]Rendered, error) { return renderWithin(ctx, in, most) }

func renderWithin(ctx context.Context, in Input, most times) ([]Rendered, error) {
	r := &rendering{in: in, most: most, handlers: map[string]worker.Handler{}, again: -1}
	r.objects.Collect(r.handlers)
	r.handlers[methodRendered] = worker.Handle(r.rendered)
	for len(r.out) < len(in.Applications) {
		left := (most.all - r.spent).Truncate(time.Second)
		if left <= 0 {
			r.fail(&worker.LimitError{What: fmt.Sprintf("the applications before it take %s of processor time, all that a KfDef has: split it", most.all)})
			continue
		}
		r.used = 0
		err := in.run(ctx, job{From: len(r.out)}, r.handlers, min(most.one, left), left)
		limited, killed := new(worker.LimitError), new(worker.KilledError)
		switch {
		case err == nil:
		case errors.As(err, &killed):
			r.used = killed.Took
			r.killed()
		case errors.Is(err, ErrUnavailable):
			return nil, err
		case errors.As(err, &limited):
			r.used = limited.Took
			r.fail(fmt.Errorf("%w: split it, or try kustomize build on its files", err))
		default:
			r.fail(fmt.Errorf("%w: try kustomize build on its files and correct what it names", err))
		}
		r.spent += r.used
	}
	return r.out, nil
}

// rendering is a KfDef that is being rendered.
type rendering struct {
	in       Input
	most     times
	handlers map[string]worker.Handler
	objects  worker.Objects
	warnings bounded.Share
	out      []Rendered
	// again is the application that is rendered once more, since the kernel ended its worker.
	again int
	// spent is the processor time of the workers before, and used that of this one.
	spent, used time.Duration
}

// rendered takes in an application, and says whether the worker is to go on with the next one.
func (r *rendering) rendered(run *worker.Run, t told) (bool, error) {
	if t.Index != len(r.out) {
		return false, fmt.Errorf("bug: application %d was rendered in place of %d", t.Index, len(r.out))
	}
	one := Rendered{Name: t.Name, Warnings: r.warnings.Take(t.Warnings), Objects: r.objects.List(strconv.Itoa(t.Index))}
	if t.Error != "" {
		one.Err = errors.New(t.Error)
	}
	r.out, r.used = append(r.out, one), run.Used()
	return r.used < r.most.turn, nil
}

// killed has the application that was being rendered rendered once more, since others may have taken the memory for which the kernel ended the
// worker. The second time it fails, alone.
func (r *rendering) killed() {
	i := len(r.out)
	if r.again == i {
		r.fail(&worker.LimitError{What: "the kernel has ended two processes that rendered it, such as for lack of memory: " + worker.KilledRemedy})
		return
	}
	r.again = i
	r.objects.Drop(strconv.Itoa(i))
}

// fail ends the application that was being rendered. What was sent of it is dropped.
func (r *rendering) fail(err error) {
	i := len(r.out)
	r.objects.Drop(strconv.Itoa(i))
	name := r.in.Applications[i].Name
	r.out = append(r.out, Rendered{Name: name, Err: fmt.Errorf("application %q: %w", name, err)})
}

// run has a worker do a job.
func (in Input) run(ctx context.Context, j job, handlers map[string]worker.Handler, step, total time.Duration) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	j.Input = raw
	trees := map[string]fs.FS{}
	for name, repo := range in.Repos {
		if repo != nil {
			trees[name], j.Repos = repo, append(j.Repos, name)
		}
	}
	worker.Trees(trees, handlers)
	pool := in.Workers
	if pool == nil {
		pool = worker.Default
	}
	return pool.Run(ctx, worker.Job{Kind: kind, Namespace: in.Namespace, Input: j, Handlers: handlers, StepTime: step, TotalTime: total})
}

// work is the life of a worker.
func work(parent *worker.Parent) error {
	var j job
	if err := parent.Read(&j); err != nil {
		return err
	}
	in := Input{Repos: map[string]fs.FS{}}
	if err := json.Unmarshal(j.Input, &in); err != nil {
		return err
	}
	for _, name := range j.Repos {
		in.Repos[name] = parent.Tree(name)
	}
	if j.Detect {
		return workDetection(parent, in)
	}
	for i := j.From; i < len(in.Applications); i++ {
		more, err := workApplication(parent, in, i)
		if err != nil || !more {
			return err
		}
		if err := parent.NextStep(); err != nil {
			return err
		}
	}
	return nil
}

func workDetection(parent *worker.Parent, in Input) error {
	rendering, why, err := detect(in)
	d := detected{Rendering: string(rendering), Why: why}
	if err != nil {
		d.Error = bounded.Text(err.Error(), maxText)
	}
	d.Why = bounded.Text(d.Why, maxText)
	_, err = worker.Call[bool](parent, methodDetected, d)
	return err
}

// workApplication renders one application and sends what became of it. It says whether the next one is to follow.
func workApplication(parent *worker.Parent, in Input, i int) (bool, error) {
	out := renderAt(in, i)
	t := told{Index: i, Name: out.Name, Warnings: out.Warnings}
	for _, o := range out.Objects {
		if err := parent.Send(strconv.Itoa(i), o); err != nil {
			return false, err
		}
	}
	if out.Err != nil {
		t.Error = bounded.Text(out.Err.Error(), maxText)
	}
	return worker.Call[bool](parent, methodRendered, t)
}
