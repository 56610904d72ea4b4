package cli

import "slices"

// advice is the meaning of a reason, and what to do about it. Both are whole sentences.
type advice struct {
	meaning string
	// remedy is empty where there is nothing to do.
	remedy string
	// quiet is a reason that is not printed while the custom resource is Ready.
	quiet bool
	// stalled is the reason of a problem that only a change of the input clears.
	stalled bool
	// vague is a reason that only points at the objects: they have the cause.
	vague bool
}

// adviceTables are those of the engine, of sources and of every controller.
var adviceTables = []map[string]advice{
	engineAdvice, sourceAdvice, trustyAIAdvice, tfservingAdvice, kubeflowAdvice, seldonAdvice, kserveAdvice,
}

// adviceOn finds the advice on the reason of a condition of a custom resource.
func adviceOn(reason string) (advice, bool) {
	for _, table := range adviceTables {
		if a, found := table[reason]; found {
			return a, true
		}
	}
	return advice{}, false
}

// StalledReasons are the reasons of Ready that wait for a change of the input, sorted.
func StalledReasons() []string {
	var out []string
	for _, table := range adviceTables {
		for reason, a := range table {
			if a.stalled {
				out = append(out, reason)
			}
		}
	}
	slices.Sort(out)
	return out
}

// engineAdvice is on the reasons that the engine gives, on whatever kind.
var engineAdvice = map[string]advice{
	"Ready": {meaning: "Everything is as declared.", quiet: true},
	"Progressing": {
		meaning: "MLKeeper has written what is declared, and some objects are not ready yet.",
		remedy:  "Wait; it recovers automatically.", vague: true,
	},
	"Retrying": {
		meaning: "A request to the API server failed temporarily, and MLKeeper retries with backoff.",
		remedy: "Wait a moment. If the same error stays, check that the API server and the admission webhooks that the " +
			"message names answer.", vague: true,
	},
	"NotReady": {
		meaning: "Its objects are healthy, but its controller reports a problem.",
		remedy:  "Look at its other conditions.", vague: true,
	},
	"InvalidSpec": {
		stalled: true,
		meaning: "A field of the custom resource does not fit its type, so MLKeeper cannot read it and does not modify its objects.",
		remedy:  "Correct the field that the message names, and apply the CustomResourceDefinitions of this release: with them the API server refuses such input.",
	},
	"WaitingForRollout": {
		meaning: "An update that restarts pods waits for the rollout in another namespace; the running pods serve as before.",
		remedy: "Nothing: the next namespace follows when all custom resources of the one that the message names are Ready, " +
			"suspended or deleted, or after ten minutes.",
	},
	"SuspendAnnotation": {
		meaning: "It is suspended: MLKeeper neither writes nor deletes its objects.",
		remedy:  "Remove the annotation keeper.mlkeeper.dev/suspend, or spec.suspend where that is set, to resume it.",
	},
	"SuspendField": {
		meaning: "It is suspended by its spec: MLKeeper neither writes nor deletes its objects.",
		remedy:  "Set spec.suspend to false to resume it.",
	},
	"FieldOwnershipCeded": {
		meaning: "Another manager changed a field, or removed an entry in an object of another owner, three times in ten minutes, so MLKeeper ceded it.",
		remedy:  "Remove one of the two declarations: the field in the other manager's manifest, or in the custom resource.",
	},
	"CacheNotSynced": {
		meaning: "MLKeeper is opening a watch that it needs before it can decide.",
		remedy: "Wait a moment. If it stays, the message, the manager's log and /readyz name the kind that it cannot list or watch, and " +
			"why: grant that right, or repair the webhook or server that does not answer.",
	},
	"RecreationBackOff": {
		meaning: "Another client deletes one of its objects each time after it was created, so MLKeeper recreates it with backoff.",
		remedy: "Look in the audit log for the client that deletes it, and for the cause, such as a token whose ServiceAccount " +
			"does not exist.",
	},
	"RepairBackOff": {
		meaning: "Another client changes one of its objects or its status back each time after MLKeeper has written it, or changes what pods are " +
			"rendered from again and again, so MLKeeper writes it with backoff.",
		remedy: "Look in the managedFields of the object and in the audit log for the client that changes it, and have only one of the two declare it. " +
			"A change of the custom resource is applied at once.",
	},
	"HookFailed": {
		meaning: "A Job or Pod that has to complete first, such as a hook of a chart, has failed. Nothing that comes after it is applied, and " +
			"what runs stays as it is.", stalled: true,
		remedy: "Look at its logs, and correct the values or the chart. Deleting it runs it again.",
	},
	"HookRunning": {
		meaning: "A Job or Pod that has to complete first has run for more than five minutes. Nothing that comes after it is applied meanwhile.",
		remedy:  "Look at its pods. Deleting it runs it again; activeDeadlineSeconds ends it by itself.",
	},
	"StoredVersionRemoved": {
		meaning: "A CustomResourceDefinition is declared without a version in which objects are stored, so that it stays as it is.", stalled: true,
		remedy: "Declare the version, as a newer release of the chart or application does, or write all objects of the kind in another version and " +
			"take the old one out of the definition's status.storedVersions.",
	},
	"ResourceConflict": {
		meaning: "An object of another owner exists with the name of one of its objects, and MLKeeper does not modify objects of others. " +
			"Workloads whose pods refer to it are neither created nor changed.",
		remedy: "Rename or delete that object, or, if it has no owner, let MLKeeper adopt it: annotate the custom resource with " +
			"keeper.mlkeeper.dev/adopt=true.",
	},
	"DefinitionTerminating": {
		meaning: "The CustomResourceDefinition of an object is being deleted, so no object of its kind can be created.",
		remedy:  "Nothing to do if that is wanted. Otherwise create the definition again once it is deleted; the object follows.",
	},
	"NamespaceTerminating": {
		meaning: "The namespace is being deleted, and no object can be created in it.",
		remedy:  "Nothing, if that is wanted; else apply the custom resource in another namespace.",
	},
	"Forbidden": {
		meaning: "The API server refused MLKeeper a right that it needs.",
		remedy: "Grant the right that the message names to MLKeeper's service account; `mlkeeper rbac` prints the roles that " +
			"it needs, with -f or --namespace also those for applications and charts. MLKeeper retries with backoff of up to five minutes.",
	},
	"TooManyNamespaces": {
		meaning: "The custom resources of the namespace refer to objects in too many other namespaces, each of which costs a watch.",
		remedy:  "Refer to fewer namespaces, such as for the Services of ingress gateways.",
	},
	"InternalError": {
		meaning: "A panic ended a background job of MLKeeper for the resource; that is a bug.",
		remedy:  "Report it with the stack trace in the manager's log. MLKeeper retries with backoff of up to five minutes.",
	},
	"AdmissionDenied": {
		meaning: "An admission policy or webhook refused one of its objects.",
		remedy:  "Change the field that the policy refuses, or the policy. MLKeeper retries with backoff of up to five minutes.",
	},
	"WebhookUnavailable": {
		meaning: "The API server has to call an admission or conversion webhook for one of its objects, and the webhook does not answer.",
		remedy: "Repair the server of the webhook that the message names, or delete its configuration if the server is gone. MLKeeper retries with " +
			"backoff of up to five minutes.",
	},
	"AlreadyAllocated": {
		meaning: "A Service asks for a node port or a cluster IP that another Service has.",
		remedy:  "Choose another one, or delete or change the other Service. MLKeeper retries with backoff of up to five minutes.",
	},
	"QuotaExceeded": {
		meaning: "A ResourceQuota of the namespace refuses one of its objects.",
		remedy:  "Raise the quota, or free some of it. MLKeeper retries with backoff of up to five minutes.",
	},
	"ImmutableField": {
		stalled: true,
		meaning: "The change needs an immutable field to change, and MLKeeper does not delete and recreate such an object.",
		remedy:  "Undo the change, or delete the object yourself if you do not need it; MLKeeper then recreates it.",
	},
	"Invalid": {
		stalled: true,
		meaning: "The API server refuses one of its objects as invalid.",
		remedy:  "Correct the field that the message names.",
	},
	"WriteForbidden": {
		meaning: "The API server refused MLKeeper's entry in an object of another owner.",
		remedy:  "Correct the cause that the message names; MLKeeper retries automatically.",
	},
	"NotEditable": {
		meaning: "An object of another owner has a structure that MLKeeper cannot edit safely, so it is not modified.",
		remedy:  "Correct the object as the message says.",
	},
	"NotReconciled": {
		meaning: "No manager has reported on it yet.",
		remedy: "Check that a manager runs and is ready (its log and /readyz name a controller without rights), that its --controllers and " +
			"--namespaces cover the custom resource, and, with --shards, that the lease of each shard has a holder.",
	},
}
