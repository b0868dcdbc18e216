// What a Go program asks through pgx: pgx URL. Prints a line for each answer.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

type order struct {
	ID   int64
	Name string
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func print(what string, values ...any) {
	fmt.Println(what + ": " + strings.TrimSpace(fmt.Sprintln(values...)))
}

func queries(ctx context.Context, conn *pgx.Conn) {
	var id int64
	var name string
	var price float64
	var at time.Time
	var tags []string
	var doc map[string]any
	var b bool
	for range 2 { // described, then from pgx's cache of statements; values are binary
		check(conn.QueryRow(ctx, "SELECT id, name, price, at, tags, doc, b FROM orders WHERE id = $1", 1).Scan(&id, &name, &price, &at, &tags, &doc, &b))
		print("row", id, name, price, at.UTC().Format(time.RFC3339), tags, doc, b)
	}
	rows, err := conn.Query(ctx, "SELECT id, name FROM orders WHERE id = ANY($1) ORDER BY id", []int64{1, 2, 9})
	check(err)
	orders, err := pgx.CollectRows(rows, pgx.RowToStructByPos[order])
	check(err)
	print("structs", orders)
	rows, err = conn.Query(ctx, "SELECT n FROM big")
	check(err)
	count := 0
	for rows.Next() {
		count++
	}
	check(rows.Err())
	print("read", count)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		check(conn.QueryRow(ctx, "SELECT name FROM orders WHERE id = $1", mode, int64(2)).Scan(&name))
		print("mode", mode, name)
	}
}

func writes(ctx context.Context, conn *pgx.Conn) {
	_, err := conn.Exec(ctx, "CREATE TABLE from_go (id int8, name text, at timestamptz)")
	check(err)
	batch := &pgx.Batch{} // one round trip: a pipeline
	for i := range 3 {
		batch.Queue("INSERT INTO from_go (id, name) VALUES ($1, $2)", i, fmt.Sprint("n", i))
	}
	batch.Queue("SELECT count(*) FROM from_go")
	results := conn.SendBatch(ctx, batch)
	for range 3 {
		tag, err := results.Exec()
		check(err)
		print("batched", tag)
	}
	var n int64
	check(results.QueryRow().Scan(&n))
	check(results.Close())
	print("count", n)
	copied, err := conn.CopyFrom(ctx, pgx.Identifier{"from_go"}, []string{"id", "name", "at"}, pgx.CopyFromSlice(100, func(i int) ([]any, error) {
		return []any{i + 10, "copied", time.UnixMilli(int64(i))}, nil
	}))
	check(err)
	print("copied in", copied)
	var out bytes.Buffer
	tag, err := conn.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM from_go WHERE id < 2 ORDER BY id) TO STDOUT (FORMAT csv)")
	check(err)
	print("copied out", tag, strings.Fields(out.String()))
	_, err = conn.Exec(ctx, "DROP TABLE from_go")
	check(err)
}

func failures(ctx context.Context, conn *pgx.Conn) {
	var failure *pgconn.PgError
	for _, sql := range []string{"SELECT nope FROM orders", "SELECT 1 / (id - 1) FROM orders"} {
		_, err := conn.Exec(ctx, sql)
		if errors.As(err, &failure) {
			print("error", failure.Code, failure.Position)
		}
	}
	transaction, err := conn.Begin(ctx)
	check(err)
	_, err = transaction.Exec(ctx, "SELECT nope FROM orders")
	print("failed", err != nil)
	check(transaction.Rollback(ctx))
	var text string
	check(conn.QueryRow(ctx, "SELECT 'still here'").Scan(&text))
	print("answer", text)
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Args[1])
	check(err)
	queries(ctx, conn)
	writes(ctx, conn)
	failures(ctx, conn)
	check(conn.Close(ctx))
	pool, err := pgxpool.New(ctx, os.Args[1])
	check(err)
	defer pool.Close()
	var group sync.WaitGroup
	sums := make([]int64, 20)
	for i := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			check(pool.QueryRow(ctx, "SELECT $1::int8 + count(*) FROM orders", i).Scan(&sums[i]))
		}()
	}
	group.Wait()
	print("pool", sums)
}
