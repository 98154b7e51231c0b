package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// splitTxn writes to Badger in as few transactions as the writes fit into. inSplitTxn makes one and ends it.
type splitTxn struct {
	db  *badger.DB
	txn *badger.Txn // open, or nil before the first write
}

// inSplitTxn calls write with a splitTxn, and commits what it has written. If write returns an error, the writes of the last
// transaction are discarded; those of earlier transactions stay.
func (s *Store) inSplitTxn(write func(*splitTxn) error) error {
	t := splitTxn{db: s.db}
	defer t.discard()
	if err := write(&t); err != nil {
		return err
	}
	return t.commit()
}

// do does one write in the transaction, or in the next one if the transaction has no room for it.
func (t *splitTxn) do(write func(*badger.Txn) error) error {
	if t.txn == nil {
		t.txn = t.db.NewTransaction(true)
	}
	err := write(t.txn)
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := t.commit(); err != nil {
		return err
	}
	t.txn = t.db.NewTransaction(true)
	return write(t.txn)
}

// commit commits the open transaction, if there is one.
func (t *splitTxn) commit() error {
	if t.txn == nil {
		return nil
	}
	err := t.txn.Commit()
	t.txn = nil
	return err
}

// discard discards the open transaction, if there is one.
func (t *splitTxn) discard() {
	if t.txn != nil {
		t.txn.Discard()
	}
}
