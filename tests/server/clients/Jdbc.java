// What a Java program asks PostgreSQL's JDBC driver: java -cp postgresql.jar Jdbc.java URL. Prints a line for each answer.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.postgresql.PGConnection;

public class Jdbc {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("user", "ann");
        properties.setProperty("prepareThreshold", "2");
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            metadata(connection.getMetaData());
            queries(connection);
            cursor(connection);
            writes(connection);
            copy(connection);
            errors(connection);
        }
    }

    static void metadata(DatabaseMetaData data) throws SQLException {
        print("product", data.getDatabaseProductName() + " " + data.getDatabaseMajorVersion());
        print("schemas", column(data.getSchemas(), "TABLE_SCHEM"));
        print("catalogs", column(data.getCatalogs(), "TABLE_CAT"));
        print("tables", column(data.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME"));
        print("views", column(data.getTables(null, null, "rec%", new String[] {"VIEW"}), "TABLE_NAME"));
        print("columns", column(data.getColumns(null, "public", "orders", "%"), "COLUMN_NAME"));
        print("types", column(data.getColumns(null, "public", "orders", "%"), "TYPE_NAME"));
        print("nullable", column(data.getColumns(null, "public", "orders", "id"), "IS_NULLABLE"));
        print("size", column(data.getColumns(null, "public", "orders", "price"), "COLUMN_SIZE"));
        print("defaults", column(data.getColumns(null, "public", "orders", "name"), "COLUMN_DEF"));
        print("primary keys", column(data.getPrimaryKeys(null, "public", "orders"), "COLUMN_NAME"));
        print("imported keys", column(data.getImportedKeys(null, "public", "orders"), "FKCOLUMN_NAME"));
        print("exported keys", column(data.getExportedKeys(null, "public", "orders"), "FKCOLUMN_NAME"));
        print("cross reference", column(data.getCrossReference(null, "public", "orders", null, "public", "odd"), "FKCOLUMN_NAME"));
        print("indexes", column(data.getIndexInfo(null, "public", "orders", false, true), "INDEX_NAME"));
        print("row identifier", column(data.getBestRowIdentifier(null, "public", "orders", 0, true), "COLUMN_NAME"));
        print("privileges", column(data.getTablePrivileges(null, "public", "orders"), "PRIVILEGE"));
        print("functions", column(data.getFunctions(null, "public", "starts_with"), "FUNCTION_NAME"));
        print("procedures", column(data.getProcedures(null, "public", "%"), "PROCEDURE_NAME"));
        print("table types", column(data.getTableTypes(), "TABLE_TYPE").contains("VIEW"));
        List<String> types = column(data.getTypeInfo(), "TYPE_NAME");
        print("type info", types.containsAll(List.of("int8", "text", "numeric", "timestamptz", "jsonb", "uuid", "_text")));
        print("keywords", data.getSQLKeywords().isEmpty() ? "none" : "some");
        print("user types", column(data.getUDTs(null, null, "%", null), "TYPE_NAME"));
    }

    static void queries(Connection connection) throws SQLException {
        String text = "SELECT id, name, price, at, tags, doc, u, b FROM orders WHERE id = ? AND price < ?";
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            print("described", statement.getMetaData().getColumnTypeName(3));
            print("parameters", statement.getParameterMetaData().getParameterTypeName(2));
            for (int i = 0; i < 4; i++) { // text at first, then prepared on the server, with binary values
                statement.setLong(1, 1);
                statement.setBigDecimal(2, new BigDecimal("9.99"));
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    print("row " + i, rows.getLong(1) + " " + rows.getString(2) + " " + rows.getBigDecimal(3) + " "
                        + rows.getObject(4, OffsetDateTime.class).toInstant() + " " + ((Object[]) rows.getArray(5).getArray()).length + " "
                        + rows.getString(6) + " " + rows.getObject(7) + " " + rows.getBoolean(8));
                }
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM orders WHERE id = ANY(?) ORDER BY id")) {
            statement.setArray(1, connection.createArrayOf("int8", new Long[] {2L, 7L, 1L}));
            print("any", column(statement.executeQuery(), "id"));
        }
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT id, price FROM orders")) {
            print("result", rows.getMetaData().getColumnName(2) + " " + rows.getMetaData().getPrecision(2) + " " + rows.getMetaData().getTableName(1));
        }
    }

    static void cursor(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.setFetchSize(1_000); // portals with row limits
            int count = 0;
            try (ResultSet rows = statement.executeQuery("SELECT n FROM big ORDER BY n")) {
                while (rows.next()) {
                    count++;
                }
            }
            print("fetched", count);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    static void writes(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE from_java (id int8, at timestamptz, name text)");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO from_java VALUES (?, ?, ?)")) {
                for (int i = 0; i < 3; i++) {
                    insert.setInt(1, i);
                    insert.setObject(2, OffsetDateTime.parse("2026-01-02T03:04:05Z"));
                    insert.setString(3, i == 1 ? null : "n" + i);
                    insert.addBatch();
                }
                print("batch", insert.executeBatch().length);
            }
            print("updated", statement.executeUpdate("UPDATE from_java SET name = 'x' WHERE id > 0"));
            print("deleted", statement.executeUpdate("DELETE FROM from_java WHERE id = 0"));
            print("left", column(statement.executeQuery("SELECT name FROM from_java"), "name"));
        }
    }

    static void copy(Connection connection) throws Exception {
        var manager = connection.unwrap(PGConnection.class).getCopyAPI();
        print("copied in", manager.copyIn("COPY from_java (id, name) FROM STDIN (FORMAT csv)", new StringReader("7,seven\n8,\n")));
        StringWriter out = new StringWriter();
        manager.copyOut("COPY (SELECT id, name FROM from_java WHERE id > 6 ORDER BY id) TO STDOUT (FORMAT csv, HEADER)", out);
        print("copied out", out.toString().replace("\n", " ").trim());
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE from_java");
        }
    }

    static void errors(Connection connection) throws SQLException {
        for (String text : new String[] {"SELECT nope FROM orders", "SELECT 1 / (id - 1) FROM orders", "SELECT FROM"}) {
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery(text);
            } catch (SQLException error) {
                print("error", error.getSQLState());
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT count(*) FROM big a, big b, big c WHERE md5(a.n::text || b.n::text || c.n::text) = 'x'");
        } catch (SQLException error) {
            print("cancelled", error.getSQLState());
        }
        print("still here", connection.isValid(5));
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                values.add(rows.getString(name));
            }
        }
        return values;
    }

    static void print(String what, Object value) {
        System.out.println(what + ": " + value);
    }
}
