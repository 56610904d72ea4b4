package helm

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
)

// bombs are templates that go on for ever, or take more than there is. Nothing in them is more than a few lines.
var bombs = map[string]string{
	"output of nested ranges":  `{{ $l := until 20000 }}{{ range $l }}{{ range $l }}xxxxxxxxxxxxxxxx{{ end }}{{ end }}`,
	"nested ranges of nothing": `{{ $l := until 20000 }}{{ range $l }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}{{ end }}`,
	"indent":                   `{{ indent 600000000 "x" }}`,
	"nindent":                  `{{ nindent 600000000 "x" }}`,
	"doubled by printf":        `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = printf "%s%s" $x $x }}{{ end }}`,
	"doubled by cat":           `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = cat $x $x }}{{ end }}`,
	"doubled by print":         `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = print $x $x }}{{ end }}`,
	"doubled by join":          `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = join $x (list $x $x) }}{{ end }}`,
	"doubled by replace":       `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = replace "x" "xx" $x }}{{ end }}`,
	"replaced by much":         `{{ $x := repeat 90000 "x" }}{{ replace "x" $x $x }}`,
	"replaced by a pattern":    `{{ $x := repeat 90000 "x" }}{{ regexReplaceAll "x" $x $x }}`,
	"repeat of repeat":         `{{ $x := repeat 90000 "x" }}{{ range until 20000 }}{{ $x = printf "%s%s" $x (repeat 90000 "x") }}{{ end }}`,
	"wide":                     `{{ range until 100000 }}{{ printf "%1000000d" 1 }}{{ end }}`,
	"wrapped":                  `{{ wrapWith 1 (repeat 90000 "x") (repeat 40000 "x ") }}`,
	"quoted again and again":   `{{ $x := "xxxxxxxx" }}{{ range until 60 }}{{ $x = quote $x }}{{ end }}`,
	"growing list":             `{{ $x := list }}{{ range until 100000 }}{{ $x = append $x (until 100000) }}{{ end }}`,
	"list within list":         `{{ $x := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ toYaml $x }}`,
	"printed list":             `{{ $x := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`,
	"copied list":              `{{ $x := list 1 }}{{ range until 40 }}{{ $x = list $x $x }}{{ end }}{{ $y := deepCopy $x }}`,
	"compared list":            `{{ $x := list 1 }}{{ $y := list 1 }}{{ range until 50 }}{{ $x = list $x $x }}{{ $y = list $y $y }}{{ end }}{{ deepEqual $x $y }}`,
	"value within itself":      `{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}`,
	"deep value":               `{{ $x := list }}{{ range until 100000 }}{{ $x = list $x }}{{ end }}{{ range until 1000 }}{{ $y := toYaml $x }}{{ end }}`,
	"template of itself":       `{{ define "a" }}{{ template "a" . }}{{ template "a" . }}{{ end }}{{ template "a" . }}`,
	"include of itself":        `{{ define "a" }}{{ include "a" . }}{{ include "a" . }}{{ end }}{{ include "a" . }}`,
	"twice and twice again":    `{{ define "a" }}{{ range until 10000 }}{{ template "b" }}{{ end }}{{ end }}{{ define "b" }}{{ range until 10000 }}{{ template "c" }}{{ end }}{{ end }}{{ define "c" }}{{ range until 10000 }}{{ end }}{{ end }}{{ template "a" }}`,
	"tpl of itself":            `{{ $x := "{{ tpl .x . }}{{ tpl .x . }}" }}{{ tpl $x (dict "x" $x "Template" .Template) }}`,
	"doubled by tpl":           `{{ $x := "xxxxxxxx" }}{{ range until 40 }}{{ $x = tpl "{{ .x }}{{ .x }}" (dict "x" $x "Template" $.Template) }}{{ end }}`,
	"dense YAML":               `{{ $x := "[]" }}{{ range until 25 }}{{ $x = printf "[%s,%s]" $x $x }}{{ end }}{{ $y := fromYaml (printf "a: %s" $x) }}`,
	"YAML of aliases":          "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]",
	"passwords":                `{{ range until 100000 }}{{ derivePassword 1 "long" "a" "b" "c" }}{{ end }}`,
}

// TestNoTemplateEndsTheManager renders what is refused by nothing but the bounds of the worker.
func TestNoTemplateEndsTheManager(t *testing.T) {
	for name, template := range bombs {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			out, err := renderInWorker(t.Context(), input(chartOf(t, "-- templates/a.yaml --\n"+template), nil), time.Second)
			if err == nil || len(out.Objects) > 0 {
				t.Fatalf("it rendered %s", names(out.Objects))
			}
			if errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), "chart small: ") {
				t.Errorf("it is not the chart that is at fault: %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			checkNoWorkers(t)
			t.Log(err)
		})
	}
	t.Run("values", func(t *testing.T) {
		// Of a chart, its file of values may be as large as an archive.
		text := "-- values.yaml --\na: [" + strings.Repeat("[],", 20<<20) + "]\n"
		if _, err := renderInWorker(t.Context(), input(chartOf(t, text), nil), 10*time.Second); err == nil || !strings.Contains(err.Error(), "MiB of memory") {
			t.Error(err)
		}
	})
	if out, err := renderExpression(t, `printf "still %s" "here"`); err != nil || out != "still here" {
		t.Errorf("%q, %v", out, err)
	}
}

// checkNoWorkers fails where a worker is left.
func checkNoWorkers(t testing.TB) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("process %d is left: %v", pid, err)
	}
}

// TestWhatIsNotTheChartsFault tells apart what a chart cannot help.
func TestWhatIsNotTheChartsFault(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller has gone"))
	endless := input(chartOf(t, "-- templates/a.yaml --\n"+bombs["nested ranges of nothing"]), nil)
	if _, err := Render(gone, endless); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the caller has gone") {
		t.Error(err)
	}
	late, stop := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the caller goes"))
	defer stop()
	if _, err := Render(late, endless); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the caller goes") {
		t.Error(err)
	}
	checkNoWorkers(t)
	waits, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer leave()
	memory := limit.New(worker.Share, worker.Share)
	if !memory.Acquire(t.Context(), "another", worker.Share) {
		t.Fatal("nothing is free")
	}
	endless.Workers = &worker.Pool{Memory: memory}
	_, err := Render(waits, endless)
	if !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

// FuzzTemplateBombs renders templates of anything: none ends the process that asks for it, or goes on after its time.
func FuzzTemplateBombs(f *testing.F) {
	for _, template := range bombs {
		f.Add(template, "a: {b: [c]}")
	}
	f.Fuzz(func(t *testing.T, template, given string) {
		values, err := ParseValues([]byte(given))
		if err != nil {
			values = nil
		}
		began := time.Now()
		chart, err := Load(fstest.MapFS{
			"Chart.yaml": {Data: []byte("apiVersion: v2\nname: small\nversion: 1.2.3\n")}, "templates/a.yaml": {Data: []byte(template)},
		})
		if err != nil {
			t.Fatal(err)
		}
		// Go ends a fuzz target after ten seconds, which a busy machine makes of one.
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		out, err := renderInWorker(ctx, input(chart, values), time.Second)
		if ctx.Err() != nil {
			checkNoWorkers(t)
			return
		}
		if err != nil && len(out.Objects) > 0 {
			t.Errorf("objects beside the error %v", err)
		}
		if errors.Is(err, ErrUnavailable) {
			t.Errorf("the chart is not encoded that it is at fault: %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		checkNoWorkers(t)
	})
}
