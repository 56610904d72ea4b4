package listing

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// MaxListed is how many bytes are kept of a list, or read of one of which a few objects are looked for.
	MaxListed = 8 << 20
	// maxPage is how many bytes are read at once: more than any object has.
	maxPage = 3 << 20
	// maxObjects is how many objects are read at once, where they are not too large for that.
	maxObjects = 100
)

// Lister lists the objects of one kind in one namespace, or in all.
type Lister interface {
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

// Each calls visit with every object of a list, in the order of their names, until it returns false. The list is an error where more than
// total bytes are read of it; zero means that there may be any number. The objects are read in pages, which become smaller where objects are
// large.
func Each(ctx context.Context, from Lister, selector string, total int64, visit func(*unstructured.Unstructured) bool) error {
	options, read := metav1.ListOptions{LabelSelector: selector, Limit: maxObjects}, int64(0)
	for {
		page, size, err := list(ctx, from, options, maxPage)
		if errors.Is(err, errTooLarge) && options.Limit > 1 {
			options.Limit /= 2
			continue
		}
		if err != nil {
			return err
		}
		if read += size; total > 0 && read > total {
			return fmt.Errorf("there are more than %d bytes", total)
		}
		for i := range page.Items {
			if !visit(&page.Items[i]) {
				return nil
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// First returns at most limit objects whose labels match, as the cache of the API server has them, which costs the least. It does not count
// them there, so that they are read in pages where there are too many.
func First(ctx context.Context, from Lister, selector string, limit int64) (out []unstructured.Unstructured, err error) {
	all, _, err := list(ctx, from, metav1.ListOptions{LabelSelector: selector, Limit: limit, ResourceVersion: "0"}, maxPage)
	switch {
	case err == nil:
		return all.Items[:min(int64(len(all.Items)), limit)], nil
	case !errors.Is(err, errTooLarge):
		return nil, err
	}
	err = Each(ctx, from, selector, MaxListed, func(u *unstructured.Unstructured) bool {
		out = append(out, *u)
		return int64(len(out)) < limit
	})
	return out, err
}

// list reads one page, and says how many bytes it had.
func list(ctx context.Context, from Lister, options metav1.ListOptions, most int64) (*unstructured.UnstructuredList, int64, error) {
	ctx, b := bounded(ctx, most)
	page, err := from.List(ctx, options)
	if errors.Is(err, errTooLarge) {
		err = fmt.Errorf("an answer has more than %d bytes: %w", most, errTooLarge)
	}
	return page, most - b.left, err
}
