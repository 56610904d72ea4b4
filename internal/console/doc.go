// Package console serves the page that shows custom resources and their objects live. It owns the HTTP server, who may ask it, and what
// goes to the page and when. What there is to show comes from a Source; the package reads no cluster by itself, and keeps nothing longer
// than somebody looks.
//
// A page on a loopback address can be reached by every program of the machine, and by every web site that a name server directs there.
// So each request names the address that is served, comes from the page itself, and carries a token that only who has the address printed at the
// start can get.
package console
