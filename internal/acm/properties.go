package acm

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Properties are the properties of an element or of its definition, each as it was sent: what MLKeeper does not read is
// neither decoded nor changed.
type Properties map[string]json.RawMessage

// Over merges properties of a definition with those of an instance, which win, key by key.
func (p Properties) Over(definition Properties) Properties {
	out := make(Properties, len(p)+len(definition))
	maps.Copy(out, definition)
	maps.Copy(out, p)
	return out
}

// Int is a whole number among the properties. Runtimes write 1 as 1.0 (Gson) and users as "1"; ok is false where there is none.
func (p Properties) Int(key string) (n int, ok bool) {
	text := strings.Trim(string(p[key]), `" `)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != float64(int32(f)) {
		return 0, false
	}
	return int(f), true
}

// Millis is a duration among the properties in milliseconds, such as deployTimeoutMs; zero where there is none above zero.
func (p Properties) Millis(key string) time.Duration {
	return p.duration(key, time.Millisecond)
}

// Seconds is a duration among the properties in seconds, such as uninitializedToPassiveTimeout; zero where there is none above
// zero.
func (p Properties) Seconds(key string) time.Duration {
	return p.duration(key, time.Second)
}

func (p Properties) duration(key string, unit time.Duration) time.Duration {
	n, ok := p.Int(key)
	if !ok || n <= 0 {
		return 0
	}
	return time.Duration(n) * unit
}

// startPhase is the phase in which an element takes part in phased orders; 0 where none is given.
func (p Properties) startPhase() int {
	n, _ := p.Int("startPhase")
	return n
}

// inStage says whether an element takes part in a stage of an order: property stage is an object that holds a list of stages for each order
// (migrate, prepare), or a list for migrations alone. Without either, stage 0 it is (AcmStageUtils.findStageSetMigrate, findStageSetPrepare).
func (p Properties) inStage(order string, stage int) bool {
	stages := []json.Number{}
	if order != "migrate" || json.Unmarshal(p["stage"], &stages) != nil || len(stages) == 0 {
		by := map[string][]json.Number{}
		_ = json.Unmarshal(p["stage"], &by)
		stages = by[order]
	}
	if len(stages) == 0 {
		return stage == 0
	}
	for _, s := range stages {
		if f, err := s.Float64(); err == nil && f == float64(stage) {
			return true
		}
	}
	return false
}
