package acm

import (
	"slices"
	"time"
)

// OrderType is what the runtime wants of an element.
type OrderType string

// The orders on an element. NoOrder is that of an element which is only known of, such as one of a later phase.
const (
	NoOrder       OrderType = ""
	OrderDeploy   OrderType = "Deploy"
	OrderUndeploy OrderType = "Undeploy"
	OrderDelete   OrderType = "Delete"
	OrderLock     OrderType = "Lock"
	OrderUnlock   OrderType = "Unlock"
	OrderUpdate   OrderType = "Update"
	OrderMigrate  OrderType = "Migrate"
	OrderPrecheck OrderType = "Precheck"
	OrderPrepare  OrderType = "Prepare"
	OrderReview   OrderType = "Review"
)

// Order is the last order on an element.
type Order struct {
	Type OrderType
	// ID is the id of the message that gave it, Time that of the message.
	ID   string
	Time time.Time
	// Received is when it came first, or was no longer held, from which its timeouts are counted.
	Received time.Time
	// Earlier are the ids of the orders before it, the newest first: brokers deliver messages again.
	Earlier []string
}

// maxEarlier is how many earlier orders are remembered. Those that come again after a crash came in one batch, and the runtime
// waits for one order before it gives the next.
const maxEarlier = 8

// has says that a message has given this order, or one of those before it.
func (o Order) has(messageID string) bool {
	return messageID != "" && (o.ID == messageID || slices.Contains(o.Earlier, messageID))
}

// after is the order as the one that follows another.
func (o Order) after(before Order) Order {
	o.Earlier = nil
	if before.ID != "" {
		o.Earlier = append([]string{before.ID}, before.Earlier...)
		o.Earlier = o.Earlier[:min(len(o.Earlier), maxEarlier)]
	}
	return o
}

// States are a deploy state with a lock state, which the runtime takes from acknowledgements word for word.
type States struct {
	DeployState DeployState
	LockState   LockState
}

// course is what becomes of an element by an order.
type course struct {
	underway, done, failed States
	// said is what is told of success, failure what is told before the reason of a failure.
	said, failure string
}

// courses are those of the participants that ONAP ships, with the texts of the Kserve participant.
var courses = map[OrderType]course{
	OrderDeploy: {
		States{Deploying, Unspecified}, States{Deployed, Locked}, States{Undeployed, Unspecified}, "Deployed", "Deploy Failed",
	},
	OrderUndeploy: {
		States{Undeploying, Unspecified}, States{Undeployed, Unspecified}, States{Deployed, Locked}, "Undeployed", "Undeploy Failed",
	},
	OrderDelete: {
		States{Deleting, Unspecified}, States{Deleted, Unspecified}, States{Undeployed, Unspecified}, "Deleted", "Delete Failed",
	},
	OrderLock: {
		States{Deployed, Locking}, States{Deployed, Locked}, States{Deployed, Unlocked}, "Locked", "Lock Failed",
	},
	OrderUnlock: {
		States{Deployed, Unlocking}, States{Deployed, Unlocked}, States{Deployed, Locked}, "Unlocked", "Unlock Failed",
	},
	OrderUpdate: {
		States{Updating, Locked}, States{Deployed, Locked}, States{Deployed, Locked}, "Updated", "Update Failed",
	},
	OrderMigrate: {
		States{Migrating, Locked}, States{Deployed, Locked}, States{Deployed, Locked}, "Migrated", "Migrate Failed",
	},
	OrderPrecheck: {
		States{Deployed, Locked}, States{Deployed, Locked}, States{Deployed, Locked}, "Migration precheck completed", "Migration precheck failed",
	},
	OrderPrepare: {
		States{Undeployed, Unspecified}, States{Undeployed, Unspecified}, States{Undeployed, Unspecified}, "Prepare completed", "Prepare failed",
	},
	OrderReview: {
		States{Deployed, Locked}, States{Deployed, Locked}, States{Deployed, Locked}, "Review completed", "Review failed",
	},
}

// Underway are the states of an element while the order is being carried out.
func (t OrderType) Underway() States { return courses[t].underway }

// Outcome is how an order ended.
type Outcome struct {
	// OrderID is the id of the order.
	OrderID string
	Type    OrderType
	States
	// Failure says why it failed; empty for success.
	Failure string
}

// Conclude is the outcome of an order. A failure is the reason, such as that of the API server; empty for success.
func (o Order) Conclude(failure string) Outcome {
	c := courses[o.Type]
	out := Outcome{OrderID: o.ID, Type: o.Type, States: c.done}
	if failure != "" {
		out.States, out.Failure = c.failed, c.failure+": "+failure
	}
	return out
}

// Result is NO_ERROR or FAILED.
func (o Outcome) Result() Result {
	if o.Failure != "" {
		return Failed
	}
	return NoError
}

// Message is what is told of the outcome.
func (o Outcome) Message() string {
	if o.Failure != "" {
		return o.Failure
	}
	return courses[o.Type].said
}
