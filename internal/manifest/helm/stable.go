package helm

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// templateFunctions are the functions of templates that would give another answer each time, or take without bounds.
type templateFunctions struct {
	generated GeneratedCredentials
	lookup    func(apiVersion, kind, namespace, name string) (map[string]any, error)
	// file is the one that is rendered, begun those that were. counts tells several calls of one function with the same arguments apart,
	// in a file and in the whole chart.
	file    string
	begun   map[string]bool
	counts  map[string]int
	lookups int
	// used are the certificates that were asked for, wanted those of them that there were not.
	used, wanted []Certificate
	// secret says that the templates have been told something secret, which the text of their errors may quote.
	secret bool
}

const (
	// maxText bounds what one call makes, in characters or numbers.
	maxText = 100_000
	// maxLookups bounds the objects that one chart looks up.
	maxLookups = 64
	// maxCertificates bounds the certificates of one chart.
	maxCertificates = 64
)

const (
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	numerals = "0123456789"
)

func (s *templateFunctions) functions() template.FuncMap {
	ascii := strings.Builder{}
	for c := byte(' '); c <= '~'; c++ {
		ascii.WriteByte(c)
	}
	return template.FuncMap{
		"randAlphaNum": s.text("randAlphaNum", letters+numerals), "randAlpha": s.text("randAlpha", letters),
		"randNumeric": s.text("randNumeric", numerals), "randAscii": s.text("randAscii", ascii.String()),
		"randBytes": s.randBytes, "randInt": s.randInt, "uuidv4": s.uuid, "shuffle": s.shuffle,
		"now": s.now, "ago": s.ago,
		"genPrivateKey": s.genPrivateKey, "genCA": s.genCA, "genCAWithKey": s.genCAWithKey,
		"genSelfSignedCert": s.genSelfSigned, "genSelfSignedCertWithKey": s.genSelfSignedWithKey,
		"genSignedCert": s.genSigned, "genSignedCertWithKey": s.genSignedWithKey,
		"htpasswd": s.refuse("htpasswd"), "bcrypt": s.refuse("bcrypt"), "encryptAES": s.refuse("encryptAES"),
		"lookup": s.lookupObject, beginFile: s.begin,
		"repeat": s.repeat, "until": s.until, "untilStep": s.untilStep, "seq": s.seq,
	}
}

// checkSize refuses what would fill the memory, by the name of what is wrong.
func checkSize(n int) error {
	if n > maxText {
		return fmt.Errorf("%d is more than the %d that one call may make", n, maxText)
	}
	return nil
}

// beginFile is the function that every file of a chart begins with.
const beginFile = "mlkeeperBeginsFile"

// markFiles has every file of a chart, and of the charts within it, begin with its name, which is that of .Template.Name.
func markFiles(c *chartv2.Chart) {
	for _, f := range c.Templates {
		name := path.Join(c.ChartFullPath(), f.Name)
		if !strings.HasPrefix(path.Base(name), "_") {
			f.Data = slices.Concat([]byte("{{ "+beginFile+" "+strconv.Quote(name)+" $ }}"), f.Data)
		}
	}
	for _, inner := range c.Dependencies() {
		markFiles(inner)
	}
}

// begin says that a file is rendered from here on, unless it is included by another one: that one's name is in the values then.
func (s *templateFunctions) begin(name string, values any) string {
	if top, ok := values.(common.Values); ok && !s.begun[name] {
		if of, ok := top["Template"].(common.Values); ok && of["Name"] == name {
			_, s.file, _ = strings.Cut(name, "/") // Without the name of the chart, which a copy of it may change.
			s.begun[name] = true
		}
	}
	return ""
}

// call is what this call of a function is known by, and how many calls for the same purpose there are in the chart so far.
func (s *templateFunctions) call(purpose string) (name string, inChart int) {
	inFile := strconv.Quote(s.file) + " " + purpose // A purpose may have any text, and a file any name.
	s.counts[purpose]++
	s.counts[inFile]++
	return fmt.Sprintf("%s#%d", inFile, s.counts[inFile]), s.counts[purpose]
}

// bytes are unguessable ones for this call of a function.
func (s *templateFunctions) bytes(purpose string, n int) []byte {
	name, inChart := s.call(purpose)
	s.secret = true
	return s.generated.Bytes(Name{Now: name, Before: fmt.Sprintf("%s#%d", purpose, inChart)}, n)
}

func (s *templateFunctions) text(name, alphabet string) func(int) (string, error) {
	return func(n int) (string, error) {
		if err := checkSize(n); err != nil || n <= 0 {
			return "", err
		}
		return Pick(s.bytes(fmt.Sprintf("%s %d", name, n), 2*n), alphabet), nil
	}
}

// Pick turns every two bytes into a character. With two, that some characters come up more often does not matter.
func Pick(random []byte, alphabet string) string {
	out := make([]byte, len(random)/2)
	for i := range out {
		out[i] = alphabet[(int(random[2*i])<<8|int(random[2*i+1]))%len(alphabet)]
	}
	return string(out)
}

func (s *templateFunctions) randBytes(n int) (string, error) {
	if err := checkSize(n); err != nil || n <= 0 {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(s.bytes(fmt.Sprintf("randBytes %d", n), n)), nil
}

func (s *templateFunctions) randInt(from, to int) (int, error) {
	if to <= from {
		return 0, fmt.Errorf("randInt %d %d: the second is not greater", from, to)
	}
	var n uint64
	for _, b := range s.bytes(fmt.Sprintf("randInt %d %d", from, to), 7) {
		n = n<<8 | uint64(b)
	}
	return from + int(n%uint64(to-from)), nil //nolint:gosec // 56 bits, and less than an int
}

func (s *templateFunctions) uuid() string {
	b := s.bytes("uuidv4", 16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (s *templateFunctions) shuffle(text string) (string, error) {
	if err := checkSize(len(text)); err != nil {
		return "", err
	}
	runes := []rune(text)
	random := s.bytes("shuffle "+text, 4*len(runes))
	for i := len(runes) - 1; i > 0; i-- {
		n := uint32(random[4*i])<<24 | uint32(random[4*i+1])<<16 | uint32(random[4*i+2])<<8 | uint32(random[4*i+3])
		j := int(n % uint32(i+1)) //nolint:gosec // i is not negative
		runes[i], runes[j] = runes[j], runes[i]
	}
	return string(runes), nil
}

func (s *templateFunctions) now() time.Time { return s.generated.Since() }

// ago is the time between a moment and that of the first rendering.
func (s *templateFunctions) ago(date any) string {
	at := s.generated.Since()
	if t, ok := date.(time.Time); ok {
		return at.Sub(t).Round(time.Second).String()
	}
	return "0s"
}

// refuse is a function that gives another answer each time and whose answer cannot be kept.
func (s *templateFunctions) refuse(name string) func(...any) (string, error) {
	return func(...any) (string, error) {
		return "", fmt.Errorf("%s gives another text each time: give the result as a value", name)
	}
}

func (s *templateFunctions) certificate(c Certificate) (Pair, error) {
	if len(s.used) == maxCertificates {
		return Pair{}, fmt.Errorf("the chart wants more than %d certificates", maxCertificates)
	}
	if slices.ContainsFunc(c.DNS, beyondASCII) {
		// The name is not told, since it may be secret.
		return Pair{}, errors.New("a DNS name of a certificate has characters beyond ASCII: write its form that begins with xn--")
	}
	s.used = append(s.used, c)
	s.secret = s.secret || c.Kind != Authority // Of the authority, templates have the certificate alone.
	pair, ok := s.generated.Certificate(c)
	if !ok {
		s.wanted = append(s.wanted, c)
	}
	return pair, nil
}

// beyondASCII says that no certificate can have a DNS name (crypto/x509, isIA5String).
func beyondASCII(name string) bool {
	return strings.ContainsFunc(name, func(c rune) bool { return c > unicode.MaxASCII })
}

func (s *templateFunctions) genPrivateKey(kind string) (string, error) {
	if kind == "" {
		kind = "rsa"
	}
	if kind != "rsa" && kind != "ecdsa" && kind != "ed25519" {
		return "", fmt.Errorf("genPrivateKey: there is no %q: use rsa, ecdsa or ed25519", kind)
	}
	name, inChart := s.call("key " + kind)
	pair, err := s.certificate(Certificate{Kind: Key, Type: kind, CommonName: name, Before: fmt.Sprint(inChart)})
	return pair.Key, err
}

// genCA is the operator's own authority, whatever the name and the lifetime that the chart asks for: it is renewed before it
// expires, without a moment in which it is not trusted.
func (s *templateFunctions) genCA(string, int) (Pair, error) {
	return s.certificate(Certificate{Kind: Authority})
}

func (s *templateFunctions) genCAWithKey(name string, days int, _ string) (Pair, error) {
	return s.genCA(name, days)
}

func (s *templateFunctions) genSelfSigned(name string, ips, dns []any, _ int) (Pair, error) {
	return s.certificate(Certificate{Kind: SelfSigned, CommonName: name, DNS: texts(dns), IPs: texts(ips)})
}

func (s *templateFunctions) genSelfSignedWithKey(name string, ips, dns []any, days int, _ string) (Pair, error) {
	return s.genSelfSigned(name, ips, dns, days)
}

func (s *templateFunctions) genSigned(name string, ips, dns []any, _ int, authority any) (Pair, error) {
	own, err := s.genCA("", 0)
	if err != nil {
		return Pair{}, err
	}
	if v := reflect.Indirect(reflect.ValueOf(authority)); v.Kind() != reflect.Struct || v.FieldByName("Cert").String() != own.Cert {
		return Pair{}, errors.New("genSignedCert: only the authority of genCA signs: give the certificate as a value where it is to be another's")
	}
	return s.certificate(Certificate{Kind: Leaf, CommonName: name, DNS: texts(dns), IPs: texts(ips)})
}

func (s *templateFunctions) genSignedWithKey(name string, ips, dns []any, days int, authority any, _ string) (Pair, error) {
	return s.genSigned(name, ips, dns, days, authority)
}

func texts(list []any) []string {
	var out []string // nil where it is empty, so that no name is no name.
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

func (s *templateFunctions) lookupObject(apiVersion, kind, namespace, name string) (map[string]any, error) {
	if s.lookups++; s.lookups > maxLookups {
		return nil, errLookups
	}
	found, err := s.lookup(apiVersion, kind, namespace, name)
	if err != nil || found == nil {
		return map[string]any{}, err
	}
	s.secret = s.secret || kind == "Secret"
	return found, nil
}

func (s *templateFunctions) repeat(n int, text string) (string, error) {
	if n <= 0 || text == "" {
		return "", nil
	}
	if n > maxText {
		return "", checkSize(n)
	}
	if err := checkSize(n * len(text)); err != nil {
		return "", err
	}
	return strings.Repeat(text, n), nil
}

func (s *templateFunctions) until(n int) ([]int, error) {
	step := 1
	if n < 0 {
		step = -1
	}
	return s.untilStep(0, n, step)
}

func (s *templateFunctions) untilStep(start, stop, step int) ([]int, error) {
	if step == 0 || step > 0 && start >= stop || step < 0 && start <= stop {
		return []int{}, nil
	}
	if err := checkSize((stop - start) / step); err != nil {
		return nil, err
	}
	var out []int
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, i)
	}
	return out, nil
}

// seq is that of the shell: LAST, FIRST LAST or FIRST STEP LAST.
func (s *templateFunctions) seq(params ...int) (string, error) {
	first, step, last := 1, 1, 0
	switch len(params) {
	case 1:
		last = params[0]
	case 2:
		first, last = params[0], params[1]
	case 3:
		first, step, last = params[0], params[1], params[2]
	default:
		return "", nil
	}
	if last < first && len(params) < 3 {
		step = -1
	}
	if step == 0 {
		return "", nil
	}
	end := last + 1
	if step < 0 {
		end = last - 1
	}
	numbers, err := s.untilStep(first, end, step)
	return strings.Trim(fmt.Sprint(numbers), "[]"), err
}
