// A service with a database: `stock CERTIFICATE KEY DATABASE_PORT PASSWORD` prints its port.
//
// POST /stock reserves what the body names: an UPDATE in PostgreSQL, with the body as its parameter. If the request has a
// traceparent, the statement has one of the same trace in a comment, as sqlcommenter writes it. Meanwhile a job of its own
// asks the database every few milliseconds.
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	_ "github.com/lib/pq"
)

func main() {
	source := fmt.Sprintf("host=127.0.0.1 port=%s user=app password=%s dbname=postgres sslmode=require", os.Args[3], os.Args[4])
	database, err := sql.Open("postgres", source)
	if err != nil {
		log.Fatal(err)
	}
	database.SetMaxOpenConns(40)
	database.SetMaxIdleConns(40)
	for { // a database that listens may still be starting
		_, err := database.Exec("CREATE TABLE IF NOT EXISTS stock (sku text, reserved int)")
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "starting up") {
			log.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	http.HandleFunc("/stock", func(answer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err == nil {
			_, err = database.ExecContext(request.Context(), commented("UPDATE stock SET reserved = reserved + 1 WHERE sku = $1", request), string(body))
		}
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.Write(body)
	})
	go job(database)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{TLSConfig: &tls.Config{}}
	log.Fatal(server.ServeTLS(listener, os.Args[1], os.Args[2]))
}

func job(database *sql.DB) {
	for number := 0; ; number++ {
		database.ExecContext(context.Background(), "UPDATE stock SET reserved = 0 WHERE sku = $1", fmt.Sprintf("restock-%d", number))
		time.Sleep(3 * time.Millisecond)
	}
}

// commented returns a statement with the trace of a request, and a span of its own.
func commented(statement string, request *http.Request) string {
	parts := strings.Split(request.Header.Get("traceparent"), "-")
	if len(parts) != 4 {
		return statement
	}
	span := make([]byte, 8)
	rand.Read(span)
	return fmt.Sprintf("%s /*traceparent='%s-%s-%x-%s'*/", statement, parts[0], parts[1], span, parts[3])
}
