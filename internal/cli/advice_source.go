package cli

// sourceAdvice is on the reasons that fetches of archives, repositories and charts fail for. The message has the remedy of the
// single case.
var sourceAdvice = map[string]advice{
	"URIInvalid": {
		meaning: "The address of an archive, repository or chart cannot be used as it is written.",
		remedy:  "Correct the URI as the message says.", stalled: true,
	},
	"AuthInvalid": {
		meaning: "The Secret for a source has credentials, a CA bundle, a proxy or a key that cannot be used.",
		remedy:  "Correct the Secret as the message says.", stalled: true,
	},
	"AddressRefused": {
		meaning: "The source is at an address that MLKeeper does not connect to, such as one inside the cluster, or its host does not exist.",
		remedy:  "Correct the host, use another server, or ask an administrator to allow the address with --source-allow-cidr.", stalled: true,
	},
	"AddressesUnknown": {
		meaning: "MLKeeper fetches nothing from the cluster itself, and cannot read which addresses the cluster has.",
		remedy: "Ask an administrator to grant the operator what the message names; `mlkeeper rbac` prints the roles. MLKeeper retries with " +
			"backoff of up to five minutes.",
	},
	"RedirectRefused": {
		meaning: "The server redirects too often, or from https to another protocol.",
		remedy:  "Use the URL that the server redirects to, or a server that stays with https.", stalled: true,
	},
	"TooLarge": {
		meaning: "The source is larger than a limit of MLKeeper, or the large custom resources of the namespace are together.",
		remedy: "Make it smaller, or ask an administrator to raise the limit that the message names; of custom resources, delete some, or move them into " +
			"another namespace.", stalled: true,
	},
	"DigestMismatch": {
		meaning: "The archive does not have the digest that the custom resource pins.",
		remedy:  "Correct the digest, or find out who changed the archive.", stalled: true,
	},
	"SignatureMissing": {
		meaning: "A chart is not signed, and the custom resource asks for a signature. What was rendered before is unchanged.",
		remedy:  "Sign the chart as the message says, or remove verify.", stalled: true,
	},
	"SignatureInvalid": {
		meaning: "A chart is signed by none of the keys, or what is signed is another chart. What was rendered before is unchanged.",
		remedy:  "Find out who changed the chart, or add the public key that it is signed with.", stalled: true,
	},
	"KeysInvalid": {
		meaning: "The public keys for the signature of a chart cannot be used.",
		remedy:  "Correct the Secret or ConfigMap with the keys as the message says.", stalled: true,
	},
	"DigestRequired": {
		meaning: "The source is not pinned, and this installation requires that (--source-require-digest).",
		remedy:  "Pin the archive by its digest, the repository by a commit, or the chart by its digest, as the message says.", stalled: true,
	},
	"RefMoves": {
		meaning: "A kustomization refers to a branch of another repository, whose content changes without anybody's doing here.",
		remedy:  "Name a tag or a commit there, or ask an administrator for --kubeflow-remote-bases=any.", stalled: true,
	},
	"InsecureTransport": {
		meaning: "The source comes over plain http and is not pinned, so that anybody on the way could replace it.",
		remedy:  "Use https, pin the source as the message says, or ask an administrator for --source-allow-http.", stalled: true,
	},
	"ArchiveInvalid": {
		meaning: "The source was fetched, and cannot be unpacked safely.",
		remedy:  "Publish it again as the message says.", stalled: true,
	},
	"NotFound": {
		meaning: "The server does not have the archive, repository, reference, folder or chart.",
		remedy:  "Correct the URI or name, and check whether the source needs credentials.", stalled: true,
	},
	"Unauthorized": {
		meaning: "The server of a source does not accept the credentials, or requires some.",
		remedy:  "Correct the Secret with the credentials.", stalled: true,
	},
	"Rejected": {
		meaning: "The server answered a fetch with something other than the source.",
		remedy:  "Check that the URI is that of an archive, a repository or a chart.", stalled: true,
	},
	"ServerError": {
		meaning: "The server of a source failed, or takes no more requests for a while.",
		remedy:  "Wait; MLKeeper retries with backoff of up to five minutes. If it stays, ask those who run the server.",
	},
	"Unreachable": {
		meaning: "The server of a source cannot be reached, or its certificate is not trusted.",
		remedy: "Check the host in the URI, the network policies and the proxy, and add the CA to the Secret if the message is about a " +
			"certificate. MLKeeper retries with backoff of up to five minutes.",
	},
	"StoreFull": {
		meaning: "The manager's volume for sources has no space left.",
		remedy:  "Ask an administrator for a larger volume. MLKeeper retries with backoff of up to five minutes.",
	},
	"StoreFailed": {
		meaning: "The manager's volume for sources fails.",
		remedy:  "Ask an administrator to check the volume. MLKeeper retries with backoff of up to five minutes.",
	},
}
