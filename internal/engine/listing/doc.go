// Package listing lists objects that users may have made many and large, within bounds of memory. It never keeps an object, and decides
// nothing about one.
package listing
