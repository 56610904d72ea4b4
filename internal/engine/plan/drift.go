package plan

import keeper "mlkeeper.dev/api/keeper/v1alpha1"

// Drift says what becomes of the values that others set in an object.
type Drift struct {
	// Leave leaves them, with a warning, until the object is declared anew.
	Leave bool
	// Ignore are JSON pointers to fields whose values are left to others, also when the object is declared anew.
	Ignore []string
}

// DriftOf is what a custom resource says of an object; nil says nothing.
func DriftOf(d *keeper.DriftDetection, key Key) Drift {
	if d == nil {
		return Drift{}
	}
	out := Drift{Leave: d.Mode == keeper.DriftWarn}
	for _, rule := range d.Ignore {
		if selects(rule.Target, key) {
			out.Ignore = append(out.Ignore, rule.Paths...)
		}
	}
	return out
}

func selects(t *keeper.DriftTarget, key Key) bool {
	if t == nil {
		return true
	}
	for _, c := range [][2]string{{t.Group, key.Group}, {t.Kind, key.Kind}, {t.Namespace, key.Namespace}, {t.Name, key.Name}} {
		if c[0] != "" && c[0] != c[1] {
			return false
		}
	}
	return true
}
