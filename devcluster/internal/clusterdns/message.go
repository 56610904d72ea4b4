package clusterdns

import (
	"errors"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// ttl is short, since a test deletes a Service and makes it again.
	ttl = 5
	// udpSize is what every client takes in one datagram.
	udpSize = 512
)

// Respond answers one packed query. An error means that it is no query at all,
// and that nothing is to be sent.
func Respond(z Zone, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	if header.Response {
		return nil, errors.New("a response, not a query")
	}
	questions, err := parser.AllQuestions()
	if err != nil {
		return nil, err
	}
	out := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, OpCode: header.OpCode, Authoritative: true,
			RecursionDesired: header.RecursionDesired,
			// Without this bit some resolvers look for another server.
			RecursionAvailable: true,
		},
		Questions: questions,
	}
	switch {
	case header.OpCode != 0:
		out.RCode = dnsmessage.RCodeNotImplemented
	case len(questions) != 1:
		out.RCode = dnsmessage.RCodeFormatError
	default:
		out.RCode, out.Answers = answer(z, questions[0])
	}
	return out.Pack()
}

// answer makes the records for one question. A name that exists and has no
// record of the wanted type is a success without records.
func answer(z Zone, q dnsmessage.Question) (dnsmessage.RCode, []dnsmessage.Resource) {
	found := z.Lookup(q.Name.String())
	if !found.Exists {
		return dnsmessage.RCodeNameError, nil
	}
	var out []dnsmessage.Resource
	if found.Alias != "" {
		target, err := dnsmessage.NewName(found.Alias + ".")
		if err != nil {
			return dnsmessage.RCodeServerFailure, nil
		}
		out = append(out, record(q.Name, dnsmessage.TypeCNAME, &dnsmessage.CNAMEResource{CNAME: target}))
		// The other name may be one of the cluster's.
		found, q.Name = z.Lookup(found.Alias), target
	}
	for _, addr := range found.Addresses {
		if r, ok := address(q, addr); ok {
			out = append(out, r)
		}
	}
	return dnsmessage.RCodeSuccess, out
}

// address is the record of an address, if the question asks for its family.
func address(q dnsmessage.Question, addr netip.Addr) (dnsmessage.Resource, bool) {
	switch {
	case addr.Is4() && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeALL):
		return record(q.Name, dnsmessage.TypeA, &dnsmessage.AResource{A: addr.As4()}), true
	case addr.Is6() && (q.Type == dnsmessage.TypeAAAA || q.Type == dnsmessage.TypeALL):
		return record(q.Name, dnsmessage.TypeAAAA, &dnsmessage.AAAAResource{AAAA: addr.As16()}), true
	default:
		return dnsmessage.Resource{}, false
	}
}

func record(name dnsmessage.Name, kind dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: name, Type: kind, Class: dnsmessage.ClassINET, TTL: ttl},
		Body:   body,
	}
}

// Truncate makes an answer fit into a datagram: one that is too long loses its
// records and tells the client to ask again over TCP.
func Truncate(response []byte) ([]byte, error) {
	if len(response) <= udpSize {
		return response, nil
	}
	var m dnsmessage.Message
	if err := m.Unpack(response); err != nil {
		return nil, err
	}
	m.Truncated, m.Answers = true, nil
	return m.Pack()
}
