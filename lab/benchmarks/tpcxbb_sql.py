"""The queries of ``apps/tpcxbb`` as SQL over whole tables: the results of DuckDB are the reference for the apps."""

from __future__ import annotations

from apps.tpcxbb.generate import DAY_S

SOLD_S = f"(ss_sold_date_sk * {DAY_S} + ss_sold_time_sk)"
Q1_SQL = f"""
with sales as (select distinct ss_ticket_number ticket, ss_item_sk item, {SOLD_S} // 3600 * 3600 as since
               from store_sales join item on i_item_sk = ss_item_sk
               where i_category_id in (1, 2, 3) and ss_store_sk in ({{stores}})),
     pairs as (select l.since, l.item a, r.item b, count(*) n from sales l join sales r using (ticket)
               where l.item < r.item group by all having n > {{least}})
select since, a, b, n from pairs qualify row_number() over (partition by since order by n desc, a, b) <= {{most}}
order by since, n desc, a, b"""
CLICKED_S = f"(wcs_click_date_sk * {DAY_S} + wcs_click_time_sk)"
CLICKS = f"""
with clicks as (select row_number() over () as serial, {CLICKED_S} as t, wcs_user_sk as u, wcs_item_sk as item,
                       wcs_sales_sk as sale, wcs_web_page_sk as page from web_clickstreams),"""
SESSIONS = (
    CLICKS
    + """
     known as (select * from clicks where u is not null and {wanted}),
     marked as (select *, coalesce(t - lag(t) over (partition by u order by serial) > 3600, true) as new from known),
     numbered as (select *, sum(new::int) over (partition by u order by serial rows unbounded preceding) as n
                  from marked),
     clicked as (select *, (max(t) over (partition by u, n) + 3600) // 86400 * 86400 as day from numbered),
"""
)
Q2_SQL = (
    SESSIONS.format(wanted="item is not null")
    + """
     items as (select distinct day, u, n, item from clicked),
     counts as (select l.day, r.item, count(*) as c from items l join items r using (day, u, n)
                where l.item = 101 and r.item <> 101 group by all)
select day, item, c from counts qualify row_number() over (partition by day order by c desc, item) <= 30
order by day, c desc, item"""
)
Q3_SQL = (
    CLICKS
    + """
     seen as (select p.serial, p.t - v.t as ago, v.item,
                     row_number() over (partition by p.serial order by v.serial desc) as back
              from clicks p join clicks v on p.u = v.u and v.serial < p.serial join item on i_item_sk = v.item
              where p.item = 101 and p.sale is not null and v.sale is null and i_category_id in (2, 3))
select item, count(*) from seen where back <= 5 and ago <= 864000 group by all order by all"""
)
Q4_SQL = (
    SESSIONS.format(wanted="true")
    + """
     carts as (select day, count(*) as pages, max(serial) filter (wp_type = 'dynamic') as filled,
                      max(serial) filter (wp_type = 'order') as paid
               from clicked join web_page on wp_web_page_sk = page group by day, u, n)
select day, count(*), sum(pages) / count(*) from carts where filled > coalesce(paid, 0) group by all order by all"""
)
Q15_SQL = """
with daily as (select i_category_id category, ss_sold_date_sk // 366 * 366 from_day, ss_sold_date_sk as x,
                      sum(round(ss_net_paid * 100)::bigint)::bigint cents
               from store_sales join item on i_item_sk = ss_item_sk where ss_store_sk = 10 group by all)
select from_day, category, count(*) as n, sum(cents)::bigint as y, regr_slope(cents, x) slope
from daily group by all having n > 1 and slope <= 0 order by from_day, category"""
