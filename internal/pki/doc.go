// Package pki makes the certificates of the operator's own authorities: ECDSA keys, an authority of ten years, servers'
// certificates of one, each due for renewal with a third of its time left. It keeps and reads nothing; random and time are
// given to it.
package pki
