package harness

import (
	"reflect"
	"strings"
	"sync"
	"unsafe"

	"k8s.io/client-go/tools/cache"
)

// Sizes counts the entries of every map and slice that is reachable from a value through the product's own types, by the type and field
// that hold it: what an operator keeps between reconciles. Maps of the same field are added up. No list of maps is needed, so that a new
// map is counted, too. What a closure holds is not reachable.
//
// The locks of a struct are held while its fields are read. State that another struct's lock guards is read without it, so the operator
// must be at rest.
func Sizes(root any) map[string]int {
	w := &walk{seen: map[visit]bool{}, sizes: map[string]int{}, open: []node{{v: reflect.ValueOf(root)}}}
	for len(w.open) > 0 {
		next := w.open[len(w.open)-1]
		w.open = w.open[:len(w.open)-1]
		w.value(next)
	}
	return w.sizes
}

// own begins the import paths of the packages of which values are looked into.
const own = "mlkeeper.dev/"

// visit is a pointer that was followed. The first field of a struct has the same address as the struct.
type visit struct {
	at   unsafe.Pointer
	kind reflect.Type
}

// node is a value to look at, and the field that it is in.
type node struct {
	field string
	v     reflect.Value
}

type walk struct {
	seen  map[visit]bool
	sizes map[string]int
	open  []node
}

// next looks at a map or a slice at once, while the lock of the struct that has it is held, and at everything else later.
func (w *walk) next(field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		w.value(node{field, v})
	case reflect.Pointer, reflect.Interface, reflect.Struct:
		w.open = append(w.open, node{field, v})
	}
}

// value counts a value, and takes down what it holds. Pointers are followed later, so that no lock is taken inside another.
func (w *walk) value(n node) {
	v := n.v
	switch v.Kind() {
	case reflect.Interface:
		w.next(n.field, v.Elem())
	case reflect.Pointer:
		w.pointer(n)
	case reflect.Struct:
		// A copy of a value in a map or an interface can be addressed, and so its fields be read.
		if !v.CanAddr() {
			at := reflect.New(v.Type())
			at.Elem().Set(v)
			v = at.Elem()
		}
		w.structure(n.field, v)
	case reflect.Map:
		w.sizes[n.field] += v.Len()
		for entry := v.MapRange(); entry.Next(); {
			w.next(n.field+"[]", entry.Value())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		w.sizes[n.field] += v.Len()
		for i := range v.Len() {
			w.next(n.field+"[]", v.Index(i))
		}
	}
}

// pointer follows a pointer once, and counts the objects of an informer.
func (w *walk) pointer(n node) {
	at := visit{n.v.UnsafePointer(), n.v.Type()}
	if n.v.IsNil() || w.seen[at] {
		return
	}
	w.seen[at] = true
	if informer, ok := n.v.Interface().(cache.SharedIndexInformer); ok {
		w.sizes[n.field+" (stored)"] += len(informer.GetStore().ListKeys())
		return
	}
	w.next(n.field, n.v.Elem())
}

// structure takes down the fields of a struct of the product, while its locks are held.
func (w *walk) structure(field string, v reflect.Value) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[sync.Map]():
		w.syncMap(field, v.Addr().Interface().(*sync.Map)) //nolint:forcetypeassert // It is one by its type.
		return
	case t.PkgPath() == "sync/atomic" && strings.HasPrefix(t.Name(), "Pointer["):
		w.next(field, v.Addr().MethodByName("Load").Call(nil)[0])
		return
	case !strings.HasPrefix(t.PkgPath(), own) || strings.HasPrefix(t.PkgPath(), own+"api/"):
		return
	}
	for _, l := range locksOf(v) {
		l.Lock()
		defer l.Unlock()
	}
	name, _, _ := strings.Cut(t.String(), "[")
	for i := range t.NumField() {
		f := readable(v.Field(i))
		if f.Kind() == reflect.Pointer || f.Kind() == reflect.Interface {
			// What the field refers to now is followed when the lock is released.
			copied := reflect.New(f.Type()).Elem()
			copied.Set(f)
			f = copied
		}
		w.next(name+"."+t.Field(i).Name, f)
	}
}

func (w *walk) syncMap(field string, m *sync.Map) {
	m.Range(func(_, value any) bool {
		w.sizes[field]++
		w.next(field+"[]", reflect.ValueOf(value))
		return true
	})
}

// locksOf are the locks among the fields of a struct.
func locksOf(v reflect.Value) []sync.Locker {
	var out []sync.Locker
	for i := range v.NumField() {
		switch v.Field(i).Type() {
		case reflect.TypeFor[sync.Mutex](), reflect.TypeFor[sync.RWMutex]():
			out = append(out, readable(v.Field(i)).Addr().Interface().(sync.Locker)) //nolint:forcetypeassert // Both are one.
		}
	}
	return out
}

// readable is a field of an addressable struct, also one that is not exported.
func readable(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() //nolint:gosec // Tests read what the product hides.
}
