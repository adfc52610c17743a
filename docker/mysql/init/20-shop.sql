-- The tables that the example flows in dags/ read: a flow does not begin before its tables are there.

CREATE TABLE shop.customers (
    customer_id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    email VARCHAR(120) NOT NULL,
    name VARCHAR(80) CHARACTER SET utf8mb4 NOT NULL,
    birthday DATE NULL,
    preferences JSON NULL,
    newsletter TINYINT(1) NOT NULL DEFAULT 0,
    created_at TIMESTAMP(3) NOT NULL);

CREATE TABLE shop.products (
    sku VARCHAR(24) NOT NULL PRIMARY KEY,
    title VARCHAR(200) NOT NULL,
    price DECIMAL(12,2) NOT NULL,
    weight_kg DOUBLE NULL,
    tags SET('new','sale','heavy','fragile') NOT NULL DEFAULT '',
    picture VARBINARY(64) NULL,
    opens TIME NULL);

CREATE TABLE shop.orders (
    order_id BIGINT NOT NULL PRIMARY KEY,
    customer_id BIGINT UNSIGNED NOT NULL,
    status ENUM('new','paid','shipped','returned') NOT NULL,
    total DECIMAL(14,2) NOT NULL,
    card_number CHAR(16) NULL,
    note TEXT NULL,
    placed_at DATETIME(6) NOT NULL,
    updated_at TIMESTAMP NOT NULL);

CREATE TABLE shop.order_items (
    order_id BIGINT NOT NULL,
    line SMALLINT UNSIGNED NOT NULL,
    sku VARCHAR(24) NOT NULL,
    quantity INT NOT NULL,
    discount FLOAT NULL,
    flags BIT(6) NOT NULL DEFAULT b'0',
    PRIMARY KEY (order_id, line));
